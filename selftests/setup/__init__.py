# SPDX-License-Identifier: GPL-2.0
"""The set-up, and tests of what users set up."""
