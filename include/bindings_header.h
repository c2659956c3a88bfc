/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen: what the safe layers use of sunrpc, rdma_cm and ib_verbs. Types that the kernel crate
 * binds already are imported from it (see Kbuild), so that both sides mean the same type.
 */

#include <linux/types.h>
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/workqueue.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/msg_prot.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/xprtrdma.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <xen/xen.h>

/* Macros whose values bindgen cannot work out by itself. */
static const unsigned int RPCRDMA_RS_HZ = HZ;

/* Enumerations that bindgen binds differently, or not, in kernel crates of different series. */
static const int RPCRDMA_RS_DMA_TO_DEVICE = DMA_TO_DEVICE;
static const int RPCRDMA_RS_DMA_FROM_DEVICE = DMA_FROM_DEVICE;
static const int RPCRDMA_RS_IPPROTO_TCP = IPPROTO_TCP;
static const int RPCRDMA_RS_IPPROTO_MAX = IPPROTO_MAX;
