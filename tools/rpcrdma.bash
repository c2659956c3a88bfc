# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Completion of rpcrdma(8) in bash: commands, names of rules, attributes.

_rpcrdma() {
	local words=
	COMPREPLY=()
	case "${COMP_WORDS[*]:1:COMP_CWORD-1}" in
	"" | --json) words="show set watch explain rule --json --version --help" ;;
	rule) words="list add set del reconnect" ;;
	"rule set" | "rule del" | "rule reconnect") words=$(cd /sys/kernel/config/rpcrdma_rs 2>/dev/null && echo *) ;;
	"set "*) words="receive-size= peer-receive-size=" && compopt -o nospace 2>/dev/null ;;
	"rule add "* | "rule set "*)
		words="side= peer= port= device= netns= inline_send= inline_receive= remote_invalidation= credits= private_data= reverse= memory= connections= version= inline_max="
		compopt -o nospace 2>/dev/null
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
# A command without words of its own takes a directory.
complete -o dirnames -F _rpcrdma rpcrdma
