# SPDX-License-Identifier: GPL-2.0
"""Tests of the command `rpcrdma` on this machine: the directories of the module that it reads and writes are fakes."""
