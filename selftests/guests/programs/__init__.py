# SPDX-License-Identifier: GPL-2.0
"""Programs that the tests run in guests; the harness finds them at /share/tools."""
