// SPDX-License-Identifier: GPL-2.0
/* Frames: memory for requests and responses in pieces that a chain can carry. */

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "virtio_accel.h"

/* Pieces are that large where the chain is long enough: easy to allocate. */
#define EASY_ORDER	PAGE_ALLOC_COSTLY_ORDER

/*
 * vaccel_frame_alloc - zeroed memory of at most @max_pieces contiguous pieces
 * @bytes: at least 1
 * @max_pieces: at least 1
 *
 * Counts on the memory control group of the caller.
 */
struct vaccel_frame *vaccel_frame_alloc(u32 bytes, u32 max_pieces)
{
	u32 order = max_t(u32, get_order(DIV_ROUND_UP(bytes, max_pieces)),
			  min_t(u32, get_order(bytes), EASY_ORDER));
	u32 piece = PAGE_SIZE << order;
	u32 pieces = DIV_ROUND_UP(bytes, piece);
	struct vaccel_frame *frame;
	u32 at;

	frame = kzalloc(struct_size(frame, sg, pieces), GFP_KERNEL_ACCOUNT);
	if (!frame)
		return NULL;
	frame->bytes = bytes;
	frame->piece_bytes = piece;
	sg_init_table(frame->sg, pieces);
	for (at = 0; at < bytes; at += piece) {
		u32 len = min(piece, bytes - at);
		struct page *page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_COMP |
						__GFP_NOWARN | __GFP_RETRY_MAYFAIL,
						get_order(len));

		if (!page) {
			vaccel_frame_free(frame);
			return NULL;
		}
		sg_set_page(&frame->sg[frame->pieces++], page, len, 0);
	}
	return frame;
}

void vaccel_frame_free(struct vaccel_frame *frame)
{
	u32 i;

	if (!frame)
		return;
	for (i = 0; i < frame->pieces; i++)
		__free_pages(sg_page(&frame->sg[i]), get_order(frame->sg[i].length));
	kfree(frame);
}

/*
 * vaccel_frame_at - a field of the frame
 * @offset: a multiple of the field's size, so that no field straddles pieces
 */
void *vaccel_frame_at(struct vaccel_frame *frame, u32 offset)
{
	struct scatterlist *sg = &frame->sg[offset / frame->piece_bytes];

	return sg_virt(sg) + offset % frame->piece_bytes;
}

int vaccel_frame_from_user(struct vaccel_frame *frame, const void __user *from)
{
	u32 i;

	for (i = 0; i < frame->pieces; i++) {
		struct scatterlist *sg = &frame->sg[i];

		if (copy_from_user(sg_virt(sg), from, sg->length))
			return -EFAULT;
		from += sg->length;
	}
	return 0;
}

int vaccel_frame_to_user(struct vaccel_frame *frame, void __user *to, u32 bytes)
{
	u32 i;

	for (i = 0; i < frame->pieces && bytes; i++) {
		struct scatterlist *sg = &frame->sg[i];
		u32 len = min(bytes, sg->length);

		if (copy_to_user(to, sg_virt(sg), len))
			return -EFAULT;
		to += len;
		bytes -= len;
	}
	return 0;
}
