// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the first RDMA device a lesser one, for tests: small, or one that refuses requests of kernel
 * users of reliable connections.
 *
 * Given when the module is loaded, fast_reg_pages and max_qp_wr are the limits that the device
 * reports. It refuses send queues of more than max_create_wr requests, even if it reports more:
 * drivers count in units of their own, and a registration may take several.
 *
 * Each operation has a file in /sys/module/ibfault/parameters. Written "N" the Nth call from then on
 * is refused with ENOMEM; written "N M" the first M requests of its chain go through (post_send,
 * local_inv, post_recv), though never the last; written "always", all calls are, until "0" is. Read,
 * it is the number of calls that have been refused since loading.
 *
 *   alloc_pd, create_cq, create_qp, alloc_mr
 *   map_mr_sg	 fewer pages than asked for are described: none
 *   post_send	 a chain that does not begin with a local invalidation
 *   local_inv	 a chain that does
 *   post_recv
 *
 * While 1 is written to hold_local_inv, local invalidations on reliable connections are kept back:
 * they seem to be posted, and do not complete. With 0, or when their queue pair is moved to the
 * error state, they are posted, in order. Read, it is the number of chains kept back.
 *
 * While 1 is written to keep_qp, moves of such queue pairs to the error state are refused with
 * ETIMEDOUT, as by firmware that does not answer. Read, it is the number of refused moves.
 *
 * no_local_inv=1 has the device name the driver hns_roce, which has no local invalidation.
 *
 * It replaces the device's operations, so they must not be in use when it is unloaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <rdma/ib_verbs.h>

struct fault {
	atomic_t left;		/* calls until one is refused, with that one; 0 for never, -1 for all */
	atomic_t refused;
	unsigned int through;	/* requests of that one's chain that are not refused */
};

static struct ib_device *target;
static const struct ib_device_ops *original;
static struct ib_device_attr attrs;

static unsigned int fast_reg_pages;
module_param(fast_reg_pages, uint, 0400);
MODULE_PARM_DESC(fast_reg_pages, "Pages that a registration can cover (default: as many as it can)");

static unsigned int max_qp_wr;
module_param(max_qp_wr, uint, 0400);
MODULE_PARM_DESC(max_qp_wr, "Requests that a queue can hold (default: as many as it can)");

static bool mem_mgt = true;
module_param(mem_mgt, bool, 0400);
MODULE_PARM_DESC(mem_mgt, "Whether the device has fast registration (default: yes)");

static unsigned int max_create_wr;
module_param(max_create_wr, uint, 0400);
MODULE_PARM_DESC(max_create_wr, "Requests of a send queue that can be created (default: any)");

static bool no_local_inv;
module_param(no_local_inv, bool, 0400);
MODULE_PARM_DESC(no_local_inv, "Whether the driver is one without local invalidation (default: no)");

/* A chain of local invalidations that is kept back. */
struct held {
	struct list_head list;
	struct ib_qp *qp;
	unsigned int count;
	struct ib_send_wr wrs[] __counted_by(count);
};

static LIST_HEAD(all_held);
static DEFINE_SPINLOCK(held_lock);	/* for the list and holding */
static bool holding;

static int fault_set(const char *text, const struct kernel_param *param)
{
	struct fault *fault = param->arg;
	unsigned int nth, through = 0;

	if (sysfs_streq(text, "always")) {
		fault->through = 0;
		atomic_set_release(&fault->left, -1);
		return 0;
	}
	if (sscanf(text, "%u %u", &nth, &through) < 1)
		return -EINVAL;
	atomic_set(&fault->left, 0);
	fault->through = through;
	atomic_set_release(&fault->left, nth);
	return 0;
}

static int fault_get(char *text, const struct kernel_param *param)
{
	struct fault *fault = param->arg;

	return sysfs_emit(text, "%d\n", atomic_read(&fault->refused));
}

static const struct kernel_param_ops fault_ops = {
	.set = fault_set,
	.get = fault_get,
};

#define FAULT(name)						\
	static struct fault name;				\
	module_param_cb(name, &fault_ops, &name, 0600)

FAULT(alloc_pd);
FAULT(create_cq);
FAULT(create_qp);
FAULT(alloc_mr);
FAULT(map_mr_sg);
FAULT(post_send);
FAULT(local_inv);
FAULT(post_recv);

/* Posts the held chains of a queue pair, or of all. Under held_lock, so that nothing overtakes them. */
static void let_go(struct ib_qp *qp)
{
	struct held *held, *next;

	lockdep_assert_held(&held_lock);
	list_for_each_entry_safe(held, next, &all_held, list) {
		const struct ib_send_wr *bad;

		if (qp && held->qp != qp)
			continue;
		if (original->post_send(held->qp, held->wrs, &bad))
			pr_err("a local invalidation that was kept back is refused\n");
		list_del(&held->list);
		kfree(held);
	}
}

static int hold_set(const char *text, const struct kernel_param *param)
{
	unsigned long flags;
	bool hold;
	int ret;

	ret = kstrtobool(text, &hold);
	if (ret)
		return ret;
	spin_lock_irqsave(&held_lock, flags);
	holding = hold;
	if (!hold)
		let_go(NULL);
	spin_unlock_irqrestore(&held_lock, flags);
	return 0;
}

static int hold_get(char *text, const struct kernel_param *param)
{
	unsigned long flags;
	size_t count;

	spin_lock_irqsave(&held_lock, flags);
	count = list_count_nodes(&all_held);
	spin_unlock_irqrestore(&held_lock, flags);
	return sysfs_emit(text, "%zu\n", count);
}

static const struct kernel_param_ops hold_ops = {
	.set = hold_set,
	.get = hold_get,
};

module_param_cb(hold_local_inv, &hold_ops, NULL, 0600);

/* Keeps a chain of local invalidations back; false if it is to be posted now. */
static bool hold(struct ib_qp *qp, const struct ib_send_wr *first)
{
	const struct ib_send_wr *wr;
	unsigned int i, count = 0;
	bool kept = false;
	unsigned long flags;
	struct held *held;

	for (wr = first; wr; wr = wr->next) {
		/* Other requests are larger than struct ib_send_wr. */
		if (wr->opcode != IB_WR_LOCAL_INV)
			return false;
		count++;
	}
	spin_lock_irqsave(&held_lock, flags);
	if (!holding)
		goto unlock;
	held = kmalloc(struct_size(held, wrs, count), GFP_ATOMIC);
	if (!held)
		goto unlock;
	held->qp = qp;
	held->count = count;
	/* The chain belongs to the caller again when this returns. */
	for (wr = first, i = 0; wr; wr = wr->next, i++) {
		held->wrs[i] = *wr;
		held->wrs[i].next = wr->next ? &held->wrs[i + 1] : NULL;
	}
	list_add_tail(&held->list, &all_held);
	kept = true;
unlock:
	spin_unlock_irqrestore(&held_lock, flags);
	return kept;
}

/* Is this the call to be refused? */
static bool due(struct fault *fault)
{
	if (atomic_read(&fault->left) >= 0 && atomic_dec_if_positive(&fault->left) != 0)
		return false;
	atomic_inc(&fault->refused);
	return true;
}

static int faulty_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return !udata && due(&alloc_pd) ? -ENOMEM : original->alloc_pd(pd, udata);
}

static int faulty_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	return !attrs && due(&create_cq) ? -ENOMEM : original->create_cq(cq, attr, attrs);
}

static int faulty_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	if (!udata && attr->qp_type == IB_QPT_RC) {
		if (due(&create_qp) || (max_create_wr && attr->cap.max_send_wr > max_create_wr))
			return -ENOMEM;
	}
	return original->create_qp(qp, attr, udata);
}

static atomic_t kept = ATOMIC_INIT(0);
static bool keeping;

static int keep_set(const char *text, const struct kernel_param *param)
{
	return kstrtobool(text, &keeping);
}

static int keep_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%d\n", atomic_read(&kept));
}

static const struct kernel_param_ops keep_ops = {
	.set = keep_set,
	.get = keep_get,
};
module_param_cb(keep_qp, &keep_ops, NULL, 0600);

static int faulty_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			    struct ib_udata *udata)
{
	unsigned long flags;

	/* Requests of a queue pair complete before it is destroyed. */
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_ERR) {
		if (READ_ONCE(keeping) && qp->qp_type == IB_QPT_RC) {
			atomic_inc(&kept);
			return -ETIMEDOUT;
		}
		spin_lock_irqsave(&held_lock, flags);
		let_go(qp);
		spin_unlock_irqrestore(&held_lock, flags);
	}
	return original->modify_qp(qp, attr, mask, udata);
}

static struct ib_mr *faulty_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	return due(&alloc_mr) ? ERR_PTR(-ENOMEM) : original->alloc_mr(pd, type, max_num_sg);
}

static int faulty_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents,
			    unsigned int *offset)
{
	/*
	 * Some drivers allocate here and may sleep (hns_roce), the drivers of the tests do not. On the
	 * debug kernel this detects a caller that holds a spinlock.
	 */
	might_sleep();
	return due(&map_mr_sg) ? 0 : original->map_mr_sg(mr, sg, nents, offset);
}

static int faulty_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad)
{
	struct fault *fault = wr->opcode == IB_WR_LOCAL_INV ? &local_inv : &post_send;
	/* The caller owns the chain: we may cut it for the time of the call. */
	struct ib_send_wr *last = NULL, *at = (struct ib_send_wr *)wr;
	unsigned int through;
	int ret;

	if (qp->qp_type != IB_QPT_RC)
		return original->post_send(qp, wr, bad);
	if (!due(fault))
		return hold(qp, wr) ? 0 : original->post_send(qp, wr, bad);
	for (through = fault->through; through && at->next; through--) {
		last = at;
		at = at->next;
	}
	if (last) {
		last->next = NULL;
		ret = original->post_send(qp, wr, bad);
		last->next = at;
		if (ret)
			return ret;
	}
	*bad = at;
	return -ENOMEM;
}

static int faulty_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			    const struct ib_recv_wr **bad)
{
	struct ib_recv_wr *last = NULL, *at = (struct ib_recv_wr *)wr;
	unsigned int through;
	int ret;

	if (qp->qp_type != IB_QPT_RC || !due(&post_recv))
		return original->post_recv(qp, wr, bad);
	for (through = post_recv.through; through && at->next; through--) {
		last = at;
		at = at->next;
	}
	if (last) {
		last->next = NULL;
		ret = original->post_recv(qp, wr, bad);
		last->next = at;
		if (ret)
			return ret;
	}
	*bad = at;
	return -ENOMEM;
}

static int ibfault_add(struct ib_device *device)
{
	if (target)
		return -EBUSY;
	original = kmemdup(&device->ops, sizeof(device->ops), GFP_KERNEL);
	if (!original)
		return -ENOMEM;
	target = device;
	attrs = device->attrs;
	if (fast_reg_pages)
		device->attrs.max_fast_reg_page_list_len = fast_reg_pages;
	if (max_qp_wr)
		device->attrs.max_qp_wr = max_qp_wr;
	if (!mem_mgt)
		device->attrs.device_cap_flags &= ~(u64)IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (no_local_inv)
		device->ops.driver_id = RDMA_DRIVER_HNS;
	device->ops.alloc_pd = faulty_alloc_pd;
	device->ops.create_cq = faulty_create_cq;
	device->ops.create_qp = faulty_create_qp;
	device->ops.modify_qp = faulty_modify_qp;
	device->ops.alloc_mr = faulty_alloc_mr;
	device->ops.map_mr_sg = faulty_map_mr_sg;
	device->ops.post_send = faulty_post_send;
	device->ops.post_recv = faulty_post_recv;
	return 0;
}

static void ibfault_remove(struct ib_device *device, void *data)
{
	device->ops = *original;
	device->attrs = attrs;
	kfree(original);
	target = NULL;
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = ibfault_add,
	.remove = ibfault_remove,
};

static int __init ibfault_init(void)
{
	int ret = ib_register_client(&client);

	if (!ret && !target) {
		pr_err("there is no RDMA device\n");
		ib_unregister_client(&client);
		ret = -ENODEV;
	}
	return ret;
}
module_init(ibfault_init);

static void __exit ibfault_exit(void)
{
	ib_unregister_client(&client);
}
module_exit(ibfault_exit);

MODULE_DESCRIPTION("A lesser RDMA device, for tests");
MODULE_LICENSE("GPL");
