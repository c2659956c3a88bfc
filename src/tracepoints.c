// SPDX-License-Identifier: GPL-2.0
/*
 * Where the trace events are defined.
 */

#define CREATE_TRACE_POINTS
#include "../include/trace.h"
