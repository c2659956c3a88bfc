// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the first RDMA device a lesser one, for tests: small, or one that refuses what kernel users
 * of reliable connections ask of it.
 *
 * Given when the module is loaded, fast_reg_pages and max_qp_wr are what the device says of itself.
 *
 * Each operation has a file in /sys/module/ibfault/parameters. Written "N" the Nth call from then on
 * is refused with ENOMEM; written "N M" the first M requests of its chain go through (post_send,
 * local_inv, post_recv), though never the last. Read, it tells how many calls have been refused
 * since loading.
 *
 *   alloc_pd, create_cq, create_qp, alloc_mr
 *   map_mr_sg	 fewer pages than asked for are described: none
 *   post_send	 a chain that does not begin with a local invalidation
 *   local_inv	 a chain that does
 *   post_recv
 *
 * It takes the place of the device's operations, so nobody may be using them when it goes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <rdma/ib_verbs.h>

struct fault {
	atomic_t left;		/* calls until one is refused, with that one; 0 for never */
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

static int fault_set(const char *text, const struct kernel_param *param)
{
	struct fault *fault = param->arg;
	unsigned int nth, through = 0;

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

/* Is this the call to be refused? */
static bool due(struct fault *fault)
{
	if (atomic_dec_if_positive(&fault->left) != 0)
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
	if (!udata && attr->qp_type == IB_QPT_RC && due(&create_qp))
		return -ENOMEM;
	return original->create_qp(qp, attr, udata);
}

static struct ib_mr *faulty_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	return due(&alloc_mr) ? ERR_PTR(-ENOMEM) : original->alloc_mr(pd, type, max_num_sg);
}

static int faulty_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents,
			    unsigned int *offset)
{
	return due(&map_mr_sg) ? 0 : original->map_mr_sg(mr, sg, nents, offset);
}

static int faulty_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad)
{
	struct fault *fault = wr->opcode == IB_WR_LOCAL_INV ? &local_inv : &post_send;
	/* Whoever posts owns the chain: we may cut it for the time of the call. */
	struct ib_send_wr *last = NULL, *at = (struct ib_send_wr *)wr;
	unsigned int through;
	int ret;

	if (qp->qp_type != IB_QPT_RC || !due(fault))
		return original->post_send(qp, wr, bad);
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
	device->ops.alloc_pd = faulty_alloc_pd;
	device->ops.create_cq = faulty_create_cq;
	device->ops.create_qp = faulty_create_qp;
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
