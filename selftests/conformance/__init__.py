# SPDX-License-Identifier: GPL-2.0
"""The table of conformance: each requirement, where it is met, and which tests would notice its loss."""
