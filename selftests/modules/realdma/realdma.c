// SPDX-License-Identifier: GPL-2.0
/*
 * Makes soft-RoCE a device that knows memory by DMA addresses alone, as adapters behind an IOMMU or
 * with bounce buffers do.
 *
 * rxe uses the addresses of the kernel itself, which hides a mapping that is missing, is made for
 * the wrong direction, is not synchronised, or is undone too early. While this module is loaded
 * each new rxe device gets a DMA device of ours. Memory that is mapped for that has a copy
 * elsewhere, and the device reads and writes only the copy: synchronising and unmapping copy the
 * data, and memory that is not synchronised holds old data. Besides, each mapping has an owner, and
 * memory that is handed to the device has to be the device's: a Send whose memory was mapped or
 * synchronised since the last one, a Receive whose memory was given back, a registration whose
 * direction fits its rights. With the parameter "moves" copies do not keep the place in their page,
 * so that a list without a gap has addresses with some, as with bounce buffers.
 *
 * Mistakes are in the kernel log, as errors, and counted in the module parameter "wrong". The
 * parameter "mappings" is the number of mappings. Load it before the device is made; it stays.
 *
 * Needs a kernel whose devices may have DMA operations of their own (CONFIG_ARCH_HAS_DMA_OPS).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

/* Set in all addresses, so that they are none of the kernel's, nor physical ones. */
#define MARK	BIT_ULL(60)

#define MAX_SGE	8	/* in a request */
#define SLOT	2048	/* bytes of a bounce buffer's smallest part */

enum owner {
	READY,	/* the device's, not used yet */
	USED,	/* the device's, in a request that was posted */
	CPU,	/* the processor's */
};

struct mapping {
	u64 addr;
	size_t size;
	enum dma_data_direction dir;
	enum owner owner;
	void *memory;
	void *copy;	/* at the same place in its page, unless that "moves" */
};

/* Mappings by the number of the page of their copy; the lock protects their contents, too. */
static DEFINE_XARRAY_FLAGS(all, XA_FLAGS_LOCK_IRQ);
/* The direction of the mapping of a registration's memory. */
static DEFINE_XARRAY_FLAGS(directions, XA_FLAGS_LOCK_IRQ);

static struct platform_device *dma_device;
static const struct ib_device_ops *original;

static int wrong_count;
module_param_named(wrong, wrong_count, int, 0400);
MODULE_PARM_DESC(wrong, "Uses of mappings that an adapter would not have survived");

static int mapping_count;
module_param_named(mappings, mapping_count, int, 0400);
MODULE_PARM_DESC(mappings, "Mappings that there are");

static bool moves;
module_param(moves, bool, 0600);
MODULE_PARM_DESC(moves, "Copies begin at a page, or, short ones, half a page: as swiotlb's slots");

#define wrong(fmt, ...)						\
do {								\
	wrong_count++;						\
	pr_err(fmt "\n", ##__VA_ARGS__);			\
	dump_stack();						\
} while (0)

static void *copy_of(u64 addr)
{
	return phys_to_virt(addr & ~MARK);
}

static bool reads(enum dma_data_direction dir)
{
	return dir == DMA_TO_DEVICE || dir == DMA_BIDIRECTIONAL;
}

static bool writes(enum dma_data_direction dir)
{
	return dir == DMA_FROM_DEVICE || dir == DMA_BIDIRECTIONAL;
}

/* The mapping that contains all of a range, or NULL. */
static struct mapping *find(u64 addr, size_t size)
{
	struct mapping *m;

	lockdep_assert_held(&all.xa_lock);
	if (!(addr & MARK))
		return NULL;
	m = xa_load(&all, (addr & ~MARK) >> PAGE_SHIFT);
	if (!m || addr < m->addr || addr + size > m->addr + m->size)
		return NULL;
	return m;
}

static void forget(struct mapping *m)
{
	unsigned long first = (m->addr & ~MARK) >> PAGE_SHIFT;
	unsigned long pages = PFN_UP(offset_in_page(m->addr) + m->size);
	unsigned long i;

	for (i = 0; i < pages; i++)
		__xa_erase(&all, first + i);
}

static dma_addr_t real_map(struct device *dev, phys_addr_t phys, size_t size,
			   enum dma_data_direction dir, unsigned long attrs)
{
	unsigned long offset = offset_in_page(phys), flags, i;
	struct mapping *m;
	void *pages;

	if (moves)
		offset = size <= SLOT && mapping_count % 2 ? SLOT : 0;
	m = kzalloc_obj(*m, GFP_ATOMIC);
	pages = alloc_pages_exact(offset + size, GFP_ATOMIC | __GFP_NOWARN);
	if (!m || !pages)
		goto fail;
	m->size = size;
	m->dir = dir;
	m->memory = phys_to_virt(phys);
	m->copy = pages + offset;
	m->addr = MARK | virt_to_phys(m->copy);
	memcpy(m->copy, m->memory, size);
	xa_lock_irqsave(&all, flags);
	for (i = 0; i < PFN_UP(offset + size); i++) {
		if (xa_err(__xa_store(&all, PHYS_PFN(virt_to_phys(pages)) + i, m, GFP_ATOMIC))) {
			forget(m);
			xa_unlock_irqrestore(&all, flags);
			goto fail;
		}
	}
	mapping_count++;
	xa_unlock_irqrestore(&all, flags);
	return m->addr;
fail:
	if (pages)
		free_pages_exact(pages, offset + size);
	kfree(m);
	return DMA_MAPPING_ERROR;
}

static void real_unmap(struct device *dev, dma_addr_t addr, size_t size,
		       enum dma_data_direction dir, unsigned long attrs)
{
	struct mapping *m;
	unsigned long flags;
	void *pages;

	xa_lock_irqsave(&all, flags);
	m = find(addr, size);
	if (!m || m->addr != addr || m->size != size || m->dir != dir) {
		wrong("unmap of %#llx, %zu bytes, direction %d: %s", addr, size, dir,
		      m ? "that is not what was mapped" : "there is no such mapping");
		xa_unlock_irqrestore(&all, flags);
		return;
	}
	/* Not if the processor has the memory already: it may have written to it since. */
	if (writes(dir) && m->owner != CPU)
		memcpy(m->memory, m->copy, size);
	forget(m);
	mapping_count--;
	xa_unlock_irqrestore(&all, flags);
	pages = m->copy - offset_in_page(addr);
	memset(pages, 0xdb, offset_in_page(addr) + size);
	free_pages_exact(pages, offset_in_page(addr) + size);
	kfree(m);
}

static void real_unmap_sg(struct device *dev, struct scatterlist *sg, int nents,
			  enum dma_data_direction dir, unsigned long attrs)
{
	struct scatterlist *s;
	int i;

	for_each_sg(sg, s, nents, i)
		real_unmap(dev, sg_dma_address(s), sg_dma_len(s), dir, attrs);
}

static int real_map_sg(struct device *dev, struct scatterlist *sg, int nents,
		       enum dma_data_direction dir, unsigned long attrs)
{
	struct scatterlist *s;
	int i;

	/* As a DMA layer marks memory that it bounces, to know it when that is unmapped. */
	if (sg_dma_is_swiotlb(sg))
		wrong("a list that has the mark of an earlier mapping");
	sg_dma_mark_swiotlb(sg);
	for_each_sg(sg, s, nents, i) {
		sg_dma_len(s) = s->length;
		sg_dma_address(s) = real_map(dev, sg_phys(s), s->length, dir, attrs);
		if (sg_dma_address(s) == DMA_MAPPING_ERROR) {
			real_unmap_sg(dev, sg, i, dir, attrs);
			return -ENOMEM;
		}
	}
	return nents;
}

static void sync(u64 addr, size_t size, enum dma_data_direction dir, enum owner to)
{
	struct mapping *m;
	unsigned long flags;

	xa_lock_irqsave(&all, flags);
	m = find(addr, size);
	if (!m || m->dir != dir) {
		wrong("synchronisation of %#llx, %zu bytes, direction %d: %s", addr, size, dir,
		      m ? "that of the mapping is another" : "there is no such mapping");
	} else {
		void *memory = m->memory + (addr - m->addr), *copy = copy_of(addr);

		if (to == CPU && writes(dir))
			memcpy(memory, copy, size);
		else if (to == READY && reads(dir))
			memcpy(copy, memory, size);
		m->owner = to;
	}
	xa_unlock_irqrestore(&all, flags);
}

static void real_sync_for_cpu(struct device *dev, dma_addr_t addr, size_t size,
			      enum dma_data_direction dir)
{
	sync(addr, size, dir, CPU);
}

static void real_sync_for_device(struct device *dev, dma_addr_t addr, size_t size,
				 enum dma_data_direction dir)
{
	sync(addr, size, dir, READY);
}

static const struct dma_map_ops real_ops = {
	.map_phys		= real_map,
	.unmap_phys		= real_unmap,
	.map_sg			= real_map_sg,
	.unmap_sg		= real_unmap_sg,
	.sync_single_for_cpu	= real_sync_for_cpu,
	.sync_single_for_device	= real_sync_for_device,
};

/* Gives memory to the device, which knows it by the address of the copy. */
static void hand_over(struct ib_sge *sge, const struct ib_sge *from, int count, bool receive)
{
	const char *what = receive ? "Receive" : "Send";
	unsigned long flags;
	struct mapping *m;
	int i;

	xa_lock_irqsave(&all, flags);
	for (i = 0; i < count; i++) {
		sge[i] = from[i];
		if (!sge[i].length)
			continue;
		m = find(sge[i].addr, sge[i].length);
		if (!m) {
			wrong("%s: %#llx, %u bytes, is not mapped", what, sge[i].addr,
			      sge[i].length);
			continue;
		}
		if (!(receive ? writes : reads)(m->dir))
			wrong("%s: memory that is mapped in direction %d", what, m->dir);
		else if (m->owner != READY)
			wrong("%s: memory that was not synchronised for the device", what);
		m->owner = USED;
		sge[i].addr = (uintptr_t)copy_of(sge[i].addr);
	}
	xa_unlock_irqrestore(&all, flags);
}

static void check_registration(const struct ib_reg_wr *wr)
{
	void *entry = xa_load(&directions, (unsigned long)wr->mr);

	if (!entry)
		wrong("a registration of no memory");
	else if ((wr->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE) &&
		  !writes(xa_to_value(entry))) ||
		 (wr->access & IB_ACCESS_REMOTE_READ && !reads(xa_to_value(entry))))
		wrong("a registration with rights %#x of memory that is mapped in direction %lu",
		      wr->access, xa_to_value(entry));
}

/* A request as kernel users of an rxe device post it. */
union request {
	struct ib_send_wr wr;
	struct ib_ud_wr ud;
	struct ib_rdma_wr rdma;
	struct ib_reg_wr reg;
};

static size_t size_of(const struct ib_qp *qp, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		return sizeof(struct ib_reg_wr);
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_WRITE:
		return sizeof(struct ib_rdma_wr);
	default:
		return qp->qp_type == IB_QPT_RC ? sizeof(*wr) : sizeof(struct ib_ud_wr);
	}
}

/* One by one, and copies: a request that was posted may complete, and be used again, at any time. */
static int real_post_send(struct ib_qp *qp, const struct ib_send_wr *first,
			  const struct ib_send_wr **bad)
{
	const struct ib_send_wr *wr, *next, *unused;
	int ret = 0;

	if (qp->uobject)
		return original->post_send(qp, first, bad);
	for (wr = first; wr && !ret; wr = next) {
		struct ib_sge sge[MAX_SGE];
		union request one;

		if (WARN_ON_ONCE(wr->num_sge > MAX_SGE))
			return -EINVAL;
		next = wr->next;
		memcpy(&one, wr, size_of(qp, wr));
		one.wr.next = NULL;
		one.wr.sg_list = sge;
		if (wr->opcode == IB_WR_REG_MR)
			check_registration(&one.reg);
		else
			hand_over(sge, wr->sg_list, wr->num_sge, false);
		ret = original->post_send(qp, &one.wr, &unused);
		if (ret)
			*bad = wr;
	}
	return ret;
}

static int real_post_recv(struct ib_qp *qp, const struct ib_recv_wr *first,
			  const struct ib_recv_wr **bad)
{
	const struct ib_recv_wr *wr, *next, *unused;
	int ret = 0;

	if (qp->uobject)
		return original->post_recv(qp, first, bad);
	for (wr = first; wr && !ret; wr = next) {
		struct ib_sge sge[MAX_SGE];
		struct ib_recv_wr one = *wr;

		if (WARN_ON_ONCE(wr->num_sge > MAX_SGE))
			return -EINVAL;
		next = wr->next;
		one.next = NULL;
		one.sg_list = sge;
		hand_over(sge, wr->sg_list, wr->num_sge, true);
		ret = original->post_recv(qp, &one, &unused);
		if (ret)
			*bad = wr;
	}
	return ret;
}

static int real_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents, unsigned int *offset)
{
	enum dma_data_direction dir = DMA_NONE;
	struct scatterlist *s;
	struct mapping *m;
	unsigned long flags;
	int i, ret;

	xa_lock_irqsave(&all, flags);
	for_each_sg(sg, s, nents, i) {
		m = find(sg_dma_address(s), sg_dma_len(s));
		if (!m || (i && m->dir != dir)) {
			xa_unlock_irqrestore(&all, flags);
			wrong("a registration of memory that is %s", m ? "mapped in two directions" :
			      "not mapped");
			return -EINVAL;
		}
		dir = m->dir;
	}
	xa_unlock_irqrestore(&all, flags);
	xa_lock_irqsave(&directions, flags);
	__xa_store(&directions, (unsigned long)mr, xa_mk_value(dir), GFP_ATOMIC);
	xa_unlock_irqrestore(&directions, flags);
	for_each_sg(sg, s, nents, i)
		sg_dma_address(s) = (uintptr_t)copy_of(sg_dma_address(s));
	ret = original->map_mr_sg(mr, sg, nents, offset);
	for_each_sg(sg, s, nents, i)
		sg_dma_address(s) = MARK | virt_to_phys((void *)(uintptr_t)sg_dma_address(s));
	return ret;
}

static int real_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	xa_erase_irq(&directions, (unsigned long)mr);
	return original->dereg_mr(mr, udata);
}

/* int ib_register_device(struct ib_device *device, const char *name, struct device *dma_device) */
static int registering(struct kprobe *probe, struct pt_regs *regs)
{
	struct ib_device *device = (struct ib_device *)regs->di;
	const char *name = (const char *)regs->si;

	if (regs->dx || strncmp(name, "rxe", 3))
		return 0;
	/* Of an rxe device before this one, which is gone. */
	kfree(original);
	original = kmemdup(&device->ops, sizeof(device->ops), GFP_ATOMIC);
	if (!original)
		return 0;
	device->ops.post_send = real_post_send;
	device->ops.post_recv = real_post_recv;
	device->ops.map_mr_sg = real_map_mr_sg;
	device->ops.dereg_mr = real_dereg_mr;
	regs->dx = (unsigned long)&dma_device->dev;
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "ib_register_device",
	.pre_handler = registering,
};

static int __init realdma_init(void)
{
	const struct platform_device_info info = {
		.name = KBUILD_MODNAME,
		.id = PLATFORM_DEVID_NONE,
		.dma_mask = DMA_BIT_MASK(64),
	};
	int ret;

	if (!IS_ENABLED(CONFIG_ARCH_HAS_DMA_OPS))
		return -EOPNOTSUPP;
	dma_device = platform_device_register_full(&info);
	if (IS_ERR(dma_device))
		return PTR_ERR(dma_device);
	set_dma_ops(&dma_device->dev, &real_ops);
	ret = register_kprobe(&probe);
	if (ret) {
		platform_device_unregister(dma_device);
		return ret;
	}
	/* A device keeps our operations as long as it is there. */
	__module_get(THIS_MODULE);
	return 0;
}
module_init(realdma_init);

MODULE_DESCRIPTION("soft-RoCE with DMA mappings that count, for tests");
MODULE_LICENSE("GPL");
