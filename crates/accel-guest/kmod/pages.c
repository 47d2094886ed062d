// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers: pages of the driver that a program maps, and that requests in flight
 * carry to and fro without a copy.
 *
 * A buffer is reached by its handle, which belongs to one open file. Its pages
 * stay until the handle is freed, every mapping is gone and every request that
 * carries a part of them is over, in whatever order.
 */

#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "virtio_accel.h"

/*
 * Where a buffer begins among the places of mmap, in pages: its handle comes
 * above its pages. It fits 32 bits, as 32-bit programs count their places.
 */
#define HANDLE_SHIFT	16
#define MAX_HANDLE	0xffff
#define MAX_BYTES	((u64)PAGE_SIZE << HANDLE_SHIFT)

/* Largest piece: beyond, pages in a row are hard to come by. */
#define MAX_ORDER_TRIED	8

static unsigned int file_buffer_mib = 64;
module_param(file_buffer_mib, uint, 0644);
MODULE_PARM_DESC(file_buffer_mib, "MiB of buffers that one open file may have (default 64, 0 for none)");

static unsigned int buffer_mib = 256;
module_param(buffer_mib, uint, 0644);
MODULE_PARM_DESC(buffer_mib, "MiB of buffers that all open files together may have (default 256)");

/* Of all files. */
static atomic64_t all_bytes;

/* References: its handle, mappings, and tails of requests. */
struct vaccel_pages {
	struct kref ref;
	struct vaccel_file *file;
	struct work_struct free;
	u32 count;
	u32 order;			/* pages come in pieces of 1 << order in a row */
	struct page *pages[];
};

static bool charge(struct vaccel_file *file, u64 bytes)
{
	bool fits;

	spin_lock_irq(&file->lock);
	fits = file->buffer_bytes + bytes <= (u64)READ_ONCE(file_buffer_mib) << 20;
	if (fits && atomic64_add_return(bytes, &all_bytes) > (u64)READ_ONCE(buffer_mib) << 20) {
		atomic64_sub(bytes, &all_bytes);
		fits = false;
	}
	if (fits)
		file->buffer_bytes += bytes;
	spin_unlock_irq(&file->lock);
	return fits;
}

static void uncharge(struct vaccel_file *file, u64 bytes)
{
	spin_lock_irq(&file->lock);
	file->buffer_bytes -= bytes;
	spin_unlock_irq(&file->lock);
	atomic64_sub(bytes, &all_bytes);
}

static void pages_free(struct vaccel_pages *pages)
{
	struct vaccel_file *file = pages->file;
	u32 i;

	for (i = 0; i < pages->count && pages->pages[i]; i++)
		__free_page(pages->pages[i]);
	uncharge(file, (u64)pages->count << PAGE_SHIFT);
	kvfree(pages);
	vaccel_file_put(file);
}

static void pages_free_later(struct work_struct *work)
{
	pages_free(container_of(work, struct vaccel_pages, free));
}

static void pages_release(struct kref *ref)
{
	struct vaccel_pages *pages = container_of(ref, struct vaccel_pages, ref);

	/* A request that ends in an interrupt: too much to do there. */
	if (irqs_disabled())
		queue_work(vaccel_reaper, &pages->free);
	else
		pages_free(pages);
}

static void pages_put(struct vaccel_pages *pages)
{
	kref_put(&pages->ref, pages_release);
}

/* The buffer of a handle, with a reference. */
static struct vaccel_pages *pages_get(struct vaccel_file *file, unsigned long handle)
{
	struct vaccel_pages *pages;

	xa_lock(&file->buffers);
	pages = xa_load(&file->buffers, handle);
	if (pages)
		kref_get(&pages->ref);
	xa_unlock(&file->buffers);
	return pages;
}

/* Order of the pieces with which the largest frame still fits a chain. */
static u32 piece_order(struct vaccel_device *dev)
{
	u32 largest = max(dev->max_request, dev->max_response);
	/* Beside the heads of both frames, and one more as a tail may begin anywhere. */
	u32 pieces = dev->max_pieces > 3 ? dev->max_pieces - 3 : 1;

	return clamp_t(u32, get_order(DIV_ROUND_UP(largest, pieces)), PAGE_ALLOC_COSTLY_ORDER,
		       MAX_ORDER_TRIED);
}

/* Zeroed pages, on the memory control group of the caller. */
static struct vaccel_pages *pages_alloc(struct vaccel_file *file, u64 bytes)
{
	u32 order = min_t(u32, get_order(bytes), piece_order(file->dev));
	struct vaccel_pages *pages;
	u32 count, i, j;

	bytes = ALIGN(bytes, PAGE_SIZE << order);
	count = bytes >> PAGE_SHIFT;
	if (!charge(file, bytes))
		return ERR_PTR(-ENOSPC);
	pages = kvzalloc(struct_size(pages, pages, count), GFP_KERNEL_ACCOUNT);
	if (!pages) {
		uncharge(file, bytes);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&pages->ref);
	kref_get(&file->ref);
	pages->file = file;
	INIT_WORK(&pages->free, pages_free_later);
	pages->count = count;
	pages->order = order;
	for (i = 0; i < count; i += 1 << order) {
		struct page *piece = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
						 __GFP_RETRY_MAYFAIL, order);

		if (!piece) {
			pages_put(pages);
			return ERR_PTR(-ENOMEM);
		}
		/* Each is mapped, and counted, by itself. */
		split_page(piece, order);
		for (j = 0; j < 1 << order; j++)
			pages->pages[i + j] = piece + j;
	}
	return pages;
}

/*
 * vaccel_buffer_make - VACCEL_IOC_BUFFER
 */
int vaccel_buffer_make(struct vaccel_file *file, void __user *arg)
{
	struct vaccel_pages *pages;
	struct vaccel_buffer args;
	int ret;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags || !args.bytes || args.bytes > MAX_BYTES)
		return -EINVAL;
	pages = pages_alloc(file, args.bytes);
	if (IS_ERR(pages))
		return PTR_ERR(pages);
	/* The handle has a reference of its own, as another thread may guess and free it. */
	kref_get(&pages->ref);
	ret = xa_alloc_cyclic(&file->buffers, &args.handle, pages, XA_LIMIT(1, MAX_HANDLE),
			      &file->next_handle, GFP_KERNEL_ACCOUNT);
	if (ret < 0) {
		pages_put(pages);
	} else {
		args.bytes = (u64)pages->count << PAGE_SHIFT;
		args.offset = (u64)args.handle << HANDLE_SHIFT << PAGE_SHIFT;
		ret = 0;
		if (copy_to_user(arg, &args, sizeof(args))) {
			ret = -EFAULT;
			if (xa_cmpxchg(&file->buffers, args.handle, pages, NULL, 0) == pages)
				pages_put(pages);
		}
	}
	pages_put(pages);
	return ret == -EBUSY ? -ENOSPC : ret;
}

/*
 * vaccel_buffer_free - VACCEL_IOC_BUFFER_FREE
 */
int vaccel_buffer_free(struct vaccel_file *file, void __user *arg)
{
	struct vaccel_buffer_free args;
	struct vaccel_pages *pages;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	pages = xa_erase(&file->buffers, args.handle);
	if (!pages)
		return -ENOENT;
	pages_put(pages);
	return 0;
}

/*
 * vaccel_buffers_end - frees all handles of a file that nobody uses any more
 */
void vaccel_buffers_end(struct vaccel_file *file)
{
	struct vaccel_pages *pages;
	unsigned long handle;

	xa_for_each(&file->buffers, handle, pages) {
		xa_erase(&file->buffers, handle);
		pages_put(pages);
	}
	xa_destroy(&file->buffers);
}

static void mapping_open(struct vm_area_struct *vma)
{
	struct vaccel_pages *pages = vma->vm_private_data;

	kref_get(&pages->ref);
}

static void mapping_close(struct vm_area_struct *vma)
{
	pages_put(vma->vm_private_data);
}

static const struct vm_operations_struct mapping_ops = {
	.open = mapping_open,
	.close = mapping_close,
};

/*
 * vaccel_buffer_mmap - maps a buffer, or some of its pages
 *
 * A child of the program does not inherit the mapping: the memory is that of
 * the one who mapped it.
 */
int vaccel_buffer_mmap(struct vaccel_file *file, struct vm_area_struct *vma)
{
	const vm_flags_t flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
	unsigned long first = vma->vm_pgoff & ((1ul << HANDLE_SHIFT) - 1);
	unsigned long left = vma_pages(vma);
	struct vaccel_pages *pages;
	int ret = -EINVAL;

	if (READ_ONCE(file->dev->dead))
		return -ENODEV;
	/* A private mapping would have copies that no request carries. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	pages = pages_get(file, vma->vm_pgoff >> HANDLE_SHIFT);
	if (!pages)
		return -EINVAL;
	if (first < pages->count && left <= pages->count - first) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
		vm_flags_set(vma, flags);
#else
		vma->vm_flags |= flags;
#endif
		ret = vm_insert_pages(vma, vma->vm_start, pages->pages + first, &left);
	}
	if (ret) {
		pages_put(pages);
		return ret;
	}
	vma->vm_private_data = pages;
	vma->vm_ops = &mapping_ops;
	return 0;
}

/*
 * vaccel_tail_new - the part of a buffer that continues a frame
 *
 * Returns NULL where there is none.
 */
struct vaccel_tail *vaccel_tail_new(struct vaccel_file *file, const struct vaccel_part *part)
{
	struct vaccel_pages *pages;
	struct vaccel_tail *tail;
	u64 offset = part->offset;
	u32 piece, left, pieces;

	if (!part->handle)
		return part->bytes || part->offset ? ERR_PTR(-EINVAL) : NULL;
	pages = pages_get(file, part->handle);
	if (!pages)
		return ERR_PTR(-ENOENT);
	tail = ERR_PTR(-EINVAL);
	if (!part->bytes || offset > MAX_BYTES ||
	    offset + part->bytes > (u64)pages->count << PAGE_SHIFT)
		goto put;
	piece = PAGE_SIZE << pages->order;
	pieces = (offset + part->bytes - 1) / piece - offset / piece + 1;
	tail = ERR_PTR(-EMSGSIZE);
	if (pieces > file->dev->max_pieces)
		goto put;
	tail = kzalloc(struct_size(tail, sg, pieces), GFP_KERNEL_ACCOUNT);
	if (!tail) {
		tail = ERR_PTR(-ENOMEM);
		goto put;
	}
	tail->pages = pages;
	tail->bytes = part->bytes;
	sg_init_table(tail->sg, pieces);
	for (left = part->bytes; left; tail->pieces++) {
		u32 len = min_t(u32, left, piece - offset % piece);

		sg_set_page(&tail->sg[tail->pieces], pages->pages[offset >> PAGE_SHIFT], len,
			    offset_in_page(offset));
		offset += len;
		left -= len;
	}
	return tail;
put:
	pages_put(pages);
	return tail;
}

void vaccel_tail_free(struct vaccel_tail *tail)
{
	if (!tail)
		return;
	pages_put(tail->pages);
	kfree(tail);
}
