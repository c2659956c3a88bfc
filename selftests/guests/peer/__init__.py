# SPDX-License-Identifier: GPL-2.0
"""A user-space RPC-over-RDMA server that can misbehave."""
