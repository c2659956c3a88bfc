# SPDX-License-Identifier: GPL-2.0
"""Boots guests under QEMU, links them over RDMA, and runs tests in them."""
