// SPDX-License-Identifier: GPL-2.0
/*
 * One-line functions around static inlines and macros that Rust cannot call. No logic, ever.
 *
 * Kbuild compiles this file to bitcode and links it into the Rust code before code generation, so a helper
 * costs what the inline costs in C. Sorted by header.
 */

#include "../include/bindings_header.h"
#include "../include/trace.h"

#if defined(__BINDGEN__) || defined(RPCRDMA_RS_PLAIN_HELPERS)
#define __rdma_helper		/* bindgen skips inline functions */
#else
#define __rdma_helper __always_inline
#endif

/* asm/barrier.h; the kernel crate's functions have other signatures before 7.3 */

__rdma_helper void rpcrdma_rs_helper_full_barrier(void)
{
	smp_mb(); /* Paired as documented at the call. */
}

/* linux/bug.h; warn_on!() of the kernel crate needs a generated file that headers packages lack */

__rdma_helper void rpcrdma_rs_helper_warn_on(bool condition)
{
	WARN_ON(condition);
}

/* linux/completion.h */

__rdma_helper void rpcrdma_rs_helper_reinit_completion(struct completion *done)
{
	reinit_completion(done);
}

/* linux/dcache.h; linux/debugfs.h, whose functions are inline without debugfs */

__rdma_helper void rpcrdma_rs_helper_dentry_put(struct dentry *dentry)
{
	dput(dentry);
}

__rdma_helper struct dentry *rpcrdma_rs_helper_debugfs_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

__rdma_helper struct dentry *rpcrdma_rs_helper_debugfs_find(const char *name, struct dentry *parent)
{
	return debugfs_lookup(name, parent);
}

__rdma_helper struct dentry *rpcrdma_rs_helper_debugfs_show(const char *name, umode_t mode, struct dentry *parent,
							    void *data, const struct file_operations *ops)
{
	return debugfs_create_file(name, mode, parent, data, ops);
}

__rdma_helper void rpcrdma_rs_helper_debugfs_unlink(struct dentry *dentry)
{
	debugfs_remove(dentry);
}

/* linux/jiffies.h */

__rdma_helper unsigned long rpcrdma_rs_helper_jiffies_now(void)
{
	return jiffies;
}

/* linux/ktime.h */

__rdma_helper ktime_t rpcrdma_rs_helper_time_now(void)
{
	return ktime_get();
}

/* linux/list.h */

__rdma_helper void rpcrdma_rs_helper_list_move_before(struct list_head *list, struct list_head *next)
{
	list_move_tail(list, next);
}

/* linux/mm.h */

__rdma_helper unsigned long rpcrdma_rs_helper_totalram_pages(void)
{
	return totalram_pages();
}

__rdma_helper struct page *rpcrdma_rs_helper_virt_to_page(const void *addr)
{
	return virt_to_page(addr);
}

__rdma_helper unsigned long rpcrdma_rs_helper_page_number(struct page *page)
{
	return page_to_pfn(page);
}

__rdma_helper void *rpcrdma_rs_helper_page_map(struct page *page)
{
	return kmap_local_page(page);
}

__rdma_helper void rpcrdma_rs_helper_page_unmap(const void *addr)
{
	kunmap_local(addr);
}

__rdma_helper void rpcrdma_rs_helper_page_written(struct page *page)
{
	flush_dcache_page(page);
}

__rdma_helper void rpcrdma_rs_helper_page_get(struct page *page)
{
	get_page(page);
}

__rdma_helper void rpcrdma_rs_helper_page_put(struct page *page)
{
	put_page(page);
}

__rdma_helper int rpcrdma_rs_helper_pages_alloc(struct page **pages, int count)
{
	return alloc_pages_bulk(GFP_KERNEL, count, pages);
}

__rdma_helper void rpcrdma_rs_helper_pages_put(struct page **pages, int count)
{
	release_pages(pages, count);
}

__rdma_helper void *rpcrdma_rs_helper_page_start(struct page *page)
{
	return page_address(page);
}

__rdma_helper int rpcrdma_rs_helper_page_refs(struct page *page)
{
	return page_ref_count(page);
}

__rdma_helper unsigned int rpcrdma_rs_helper_memalloc_nofs_save(void)
{
	return memalloc_nofs_save();
}

__rdma_helper void rpcrdma_rs_helper_memalloc_nofs_restore(unsigned int flags)
{
	memalloc_nofs_restore(flags);
}

__rdma_helper unsigned int rpcrdma_rs_helper_memalloc_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

__rdma_helper void rpcrdma_rs_helper_memalloc_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}

/* net/net_namespace.h */

__rdma_helper u32 rpcrdma_rs_helper_net_number(struct net *net)
{
	return net->ns.inum;
}

__rdma_helper void rpcrdma_rs_helper_get_net(struct net *net)
{
	get_net(net);
}

__rdma_helper void rpcrdma_rs_helper_put_net(struct net *net)
{
	put_net(net);
}

/* linux/rcupdate.h */

__rdma_helper void rpcrdma_rs_helper_wait_for_stragglers(void)
{
	synchronize_rcu_tasks();
}

/* linux/scatterlist.h */

__rdma_helper void rpcrdma_rs_helper_sg_set_page(struct scatterlist *sg, struct page *page,
						 unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}

__rdma_helper void rpcrdma_rs_helper_sg_copy_page(struct scatterlist *to, const struct scatterlist *from)
{
	sg_set_page(to, sg_page((struct scatterlist *)from), from->length, from->offset);
}

/* linux/slab.h */

__rdma_helper void *rpcrdma_rs_helper_kmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

/* linux/sunrpc/addr.h */

__rdma_helper unsigned short rpcrdma_rs_helper_rpc_get_port(const struct sockaddr *sap)
{
	return rpc_get_port(sap);
}

__rdma_helper void rpcrdma_rs_helper_rpc_set_port(struct sockaddr *sap, unsigned short port)
{
	rpc_set_port(sap, port);
}

/* linux/sunrpc/bc_xprt.h */

__rdma_helper int rpcrdma_rs_helper_bc_prealloc(struct rpc_rqst *rqst)
{
	return bc_prealloc(rqst);
}

/* linux/sunrpc/auth.h */

__rdma_helper bool rpcrdma_rs_helper_rqst_data_touch(struct rpc_rqst *rqst)
{
	return test_bit(RPCAUTH_AUTH_DATATOUCH, &rqst->rq_cred->cr_auth->au_flags);
}

/* linux/sunrpc/svc.h */

__rdma_helper void rpcrdma_rs_helper_svc_rqst_set(struct svc_rqst *rqst, unsigned int flag)
{
	set_bit(flag, &rqst->rq_flags);
}

__rdma_helper void rpcrdma_rs_helper_svc_rqst_clear(struct svc_rqst *rqst, unsigned int flag)
{
	clear_bit(flag, &rqst->rq_flags);
}

/* linux/sunrpc/svc_xprt.h */

__rdma_helper void rpcrdma_rs_helper_svc_xprt_set(struct svc_xprt *xprt, unsigned int flag)
{
	set_bit(flag, &xprt->xpt_flags);
}

__rdma_helper void rpcrdma_rs_helper_svc_xprt_clear(struct svc_xprt *xprt, unsigned int flag)
{
	clear_bit(flag, &xprt->xpt_flags);
}

__rdma_helper bool rpcrdma_rs_helper_svc_xprt_test(struct svc_xprt *xprt, unsigned int flag)
{
	return test_bit(flag, &xprt->xpt_flags);
}

__rdma_helper bool rpcrdma_rs_helper_svc_xprt_test_and_set(struct svc_xprt *xprt, unsigned int flag)
{
	return test_and_set_bit(flag, &xprt->xpt_flags);
}

__rdma_helper void rpcrdma_rs_helper_svc_xprt_local(struct svc_xprt *xprt, const struct sockaddr *sap, size_t len)
{
	svc_xprt_set_local(xprt, sap, len);
}

__rdma_helper void rpcrdma_rs_helper_svc_xprt_remote(struct svc_xprt *xprt, const struct sockaddr *sap, size_t len)
{
	svc_xprt_set_remote(xprt, sap, len);
}

__rdma_helper void rpcrdma_rs_helper_svc_xprt_put_net(struct svc_xprt *xprt)
{
	put_net_track(xprt->xpt_net, &xprt->ns_tracker);
}

/* linux/sunrpc/xprt.h */

__rdma_helper void rpcrdma_rs_helper_xprt_set_bound(struct rpc_xprt *xprt)
{
	xprt_set_bound(xprt);
}

__rdma_helper void rpcrdma_rs_helper_xprt_set_connected(struct rpc_xprt *xprt)
{
	xprt_set_connected(xprt);
}

__rdma_helper int rpcrdma_rs_helper_xprt_connected(struct rpc_xprt *xprt)
{
	return xprt_connected(xprt);
}

__rdma_helper bool rpcrdma_rs_helper_xprt_is_space_wanted(struct rpc_xprt *xprt)
{
	return test_bit(XPRT_WRITE_SPACE, &xprt->state);
}

__rdma_helper void rpcrdma_rs_helper_xprt_clear_cwnd_wait(struct rpc_xprt *xprt)
{
	clear_bit(XPRT_CWND_WAIT, &xprt->state);
}

__rdma_helper void rpcrdma_rs_helper_xprt_set_cwnd_wait(struct rpc_xprt *xprt)
{
	set_bit(XPRT_CWND_WAIT, &xprt->state);
}

__rdma_helper void rpcrdma_rs_helper_xprt_clear_congested(struct rpc_xprt *xprt)
{
	clear_bit(XPRT_CONGESTED, &xprt->state);
}

__rdma_helper unsigned int rpcrdma_rs_helper_xprt_refs(struct rpc_xprt *xprt)
{
	return kref_read(&xprt->kref);
}

__rdma_helper void rpcrdma_rs_helper_xprt_clear_connecting(struct rpc_xprt *xprt)
{
	xprt_clear_connecting(xprt);
}

__rdma_helper void rpcrdma_rs_helper_xprt_swapper_inc(struct rpc_xprt *xprt)
{
	atomic_inc(&xprt->swapper);
}

__rdma_helper void rpcrdma_rs_helper_xprt_swapper_dec(struct rpc_xprt *xprt)
{
	atomic_dec(&xprt->swapper);
}

__rdma_helper int rpcrdma_rs_helper_xprt_swapper_read(struct rpc_xprt *xprt)
{
	return atomic_read(&xprt->swapper);
}

/* rdma/ib_verbs.h */

__rdma_helper bool rpcrdma_rs_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

__rdma_helper int rpcrdma_rs_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
						 const struct ib_send_wr **bad)
{
	return ib_post_send(qp, wr, bad);
}

__rdma_helper int rpcrdma_rs_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
						 const struct ib_recv_wr **bad)
{
	return ib_post_recv(qp, wr, bad);
}

__rdma_helper void rpcrdma_rs_helper_ib_update_fast_reg_key(struct ib_mr *mr, u8 key)
{
	ib_update_fast_reg_key(mr, key);
}

__rdma_helper int rpcrdma_rs_helper_ib_dereg_mr(struct ib_mr *mr)
{
	return ib_dereg_mr(mr);
}

__rdma_helper struct ib_pd *rpcrdma_rs_helper_ib_alloc_pd(struct ib_device *dev)
{
	return ib_alloc_pd(dev, 0);
}

__rdma_helper void rpcrdma_rs_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

__rdma_helper struct ib_cq *rpcrdma_rs_helper_ib_alloc_cq_any(struct ib_device *dev, void *private,
							      int nr_cqe, enum ib_poll_context ctx)
{
	return ib_alloc_cq_any(dev, private, nr_cqe, ctx);
}

__rdma_helper int rpcrdma_rs_helper_ib_cq_users(struct ib_cq *cq)
{
	return atomic_read(&cq->usecnt);
}

__rdma_helper u64 rpcrdma_rs_helper_ib_dma_map_single(struct ib_device *dev, void *addr, size_t size, int dir)
{
	return ib_dma_map_single(dev, addr, size, dir);
}

__rdma_helper void rpcrdma_rs_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size, int dir)
{
	ib_dma_unmap_single(dev, addr, size, dir);
}

__rdma_helper int rpcrdma_rs_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

__rdma_helper void rpcrdma_rs_helper_ib_dma_sync_for_cpu(struct ib_device *dev, u64 addr, size_t size, int dir)
{
	ib_dma_sync_single_for_cpu(dev, addr, size, dir);
}

__rdma_helper void rpcrdma_rs_helper_ib_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t size, int dir)
{
	ib_dma_sync_single_for_device(dev, addr, size, dir);
}

__rdma_helper u64 rpcrdma_rs_helper_ib_dma_map_page(struct ib_device *dev, struct page *page, unsigned long offset,
						    size_t size, int dir)
{
	return ib_dma_map_page(dev, page, offset, size, dir);
}

__rdma_helper void rpcrdma_rs_helper_ib_dma_unmap_page(struct ib_device *dev, u64 addr, size_t size, int dir)
{
	ib_dma_unmap_page(dev, addr, size, dir);
}

__rdma_helper bool rpcrdma_rs_helper_rdma_cap_read_inv(struct ib_device *dev, u32 port)
{
	return rdma_cap_read_inv(dev, port);
}

__rdma_helper int rpcrdma_rs_helper_ib_dma_map_sg(struct ib_device *dev, struct scatterlist *sg, int nents, int dir)
{
	return ib_dma_map_sg(dev, sg, nents, dir);
}

__rdma_helper void rpcrdma_rs_helper_ib_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg, int nents, int dir)
{
	ib_dma_unmap_sg(dev, sg, nents, dir);
}

/* rdma/rdma_cm.h */

__rdma_helper struct rdma_cm_id *rpcrdma_rs_helper_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
								  void *context)
{
	return rdma_create_id(net, handler, context, RDMA_PS_TCP, IB_QPT_RC);
}

/* trace.h */

__rdma_helper void rpcrdma_rs_helper_trace_op_connect(u32 xprt, const char *addr, const char *port, unsigned int delay)
{
	trace_xprtrdma_op_connect(xprt, addr, port, delay);
}

__rdma_helper void rpcrdma_rs_helper_trace_inline_thresh(u32 xprt, u64 sent, u64 received, unsigned int inline_send,
						unsigned int inline_recv, unsigned int credits)
{
	trace_xprtrdma_inline_thresh(xprt, sent, received, inline_send, inline_recv, credits);
}

__rdma_helper void rpcrdma_rs_helper_trace_op_close(u32 xprt, const char *reason, unsigned int len)
{
	trace_xprtrdma_op_close(xprt, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_marshal(u32 xprt, u32 xid, unsigned int len, unsigned int pagelen,
						unsigned int recv_max, unsigned int rtype, unsigned int wtype)
{
	trace_xprtrdma_marshal(xprt, xid, len, pagelen, recv_max, rtype, wtype);
}

__rdma_helper void rpcrdma_rs_helper_trace_marshal_failed(u32 xprt, u32 xid, const char *reason, unsigned int len)
{
	trace_xprtrdma_marshal_failed(xprt, xid, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_mr_map(u32 xprt, u32 xid, u32 handle, u32 length, u64 offset, bool writable)
{
	trace_xprtrdma_mr_map(xprt, xid, handle, length, offset, writable);
}

__rdma_helper void rpcrdma_rs_helper_trace_post_send(u32 xprt, u32 xid, unsigned int len)
{
	trace_xprtrdma_post_send(xprt, xid, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_wc_receive(u32 xprt, unsigned int received, u32 inv_rkey)
{
	trace_xprtrdma_wc_receive(xprt, received, inv_rkey);
}

__rdma_helper void rpcrdma_rs_helper_trace_reply(u32 xprt, u32 xid, unsigned int credits)
{
	trace_xprtrdma_reply(xprt, xid, credits);
}

__rdma_helper void rpcrdma_rs_helper_trace_reply_err(u32 xprt, u32 xid, const char *reason, unsigned int len)
{
	trace_xprtrdma_reply_err(xprt, xid, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_offer(u32 xprt, u32 xid, const char *reason, unsigned int len)
{
	trace_xprtrdma_offer(xprt, xid, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_mr_localinv(u32 xprt, u32 xid, unsigned int count)
{
	trace_xprtrdma_mr_localinv(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_cb_call(u32 xprt, u32 xid, unsigned int count)
{
	trace_xprtrdma_cb_call(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_cb_reply(u32 xprt, u32 xid, unsigned int count)
{
	trace_xprtrdma_cb_reply(xprt, xid, count);
}

__rdma_helper bool rpcrdma_rs_helper_trace_marshal_enabled(void)
{
	return trace_xprtrdma_marshal_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_mr_map_enabled(void)
{
	return trace_xprtrdma_mr_map_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_post_send_enabled(void)
{
	return trace_xprtrdma_post_send_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_wc_receive_enabled(void)
{
	return trace_xprtrdma_wc_receive_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_reply_enabled(void)
{
	return trace_xprtrdma_reply_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_mr_localinv_enabled(void)
{
	return trace_xprtrdma_mr_localinv_enabled();
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_accept(u32 xprt, const char *addr, unsigned int len, u64 sent, u64 received,
						      unsigned int inline_send, unsigned int inline_recv,
						      unsigned int credits)
{
	trace_svcrdma_accept(xprt, addr, len, sent, received, inline_send, inline_recv, credits);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_close(u32 xprt, const char *reason, unsigned int len)
{
	trace_svcrdma_close(xprt, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_call(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_call(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_read(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_read(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_write(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_write(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_reply(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_reply(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_cb_call(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_cb_call(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_cb_reply(u32 xprt, u32 xid, unsigned int count)
{
	trace_svcrdma_cb_reply(xprt, xid, count);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_unusable(u32 xprt, u32 xid, const char *reason, unsigned int len)
{
	trace_svcrdma_unusable(xprt, xid, reason, len);
}

__rdma_helper void rpcrdma_rs_helper_trace_operation(u32 xprt, u32 xid, const char *name, unsigned int len, bool sent,
						     unsigned int receive_size, unsigned int peer_receive_size)
{
	trace_xprtrdma_operation(xprt, xid, name, len, sent, receive_size, peer_receive_size);
}

__rdma_helper void rpcrdma_rs_helper_trace_svc_operation(u32 xprt, u32 xid, const char *name, unsigned int len,
							 bool sent, unsigned int receive_size,
							 unsigned int peer_receive_size)
{
	trace_svcrdma_operation(xprt, xid, name, len, sent, receive_size, peer_receive_size);
}

__rdma_helper bool rpcrdma_rs_helper_trace_operation_enabled(void)
{
	return trace_xprtrdma_operation_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_svc_operation_enabled(void)
{
	return trace_svcrdma_operation_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_svc_call_enabled(void)
{
	return trace_svcrdma_call_enabled();
}

__rdma_helper bool rpcrdma_rs_helper_trace_svc_reply_enabled(void)
{
	return trace_svcrdma_reply_enabled();
}

/* xen/xen.h */

__rdma_helper bool rpcrdma_rs_helper_xen_pv_domain(void)
{
	return xen_pv_domain();
}
