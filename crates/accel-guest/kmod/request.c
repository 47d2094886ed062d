// SPDX-License-Identifier: GPL-2.0
/* A request from its making to its end. */

#include <linux/slab.h>

#include "virtio_accel.h"

/* A frame leaves to a small opposite one a single descriptor. */
static u32 pieces_beside(struct vaccel_device *dev, u32 other_bytes)
{
	return other_bytes <= PAGE_SIZE ? dev->max_pieces - 1 : dev->max_pieces / 2;
}

static void uncharge(struct vaccel_file *file, u64 charged)
{
	unsigned long flags;

	if (!charged)
		return;
	spin_lock_irqsave(&file->lock, flags);
	file->charged_requests--;
	file->charged_bytes -= charged;
	wake_up_all(&file->wait);
	spin_unlock_irqrestore(&file->lock, flags);
}

/*
 * vaccel_request_new - memory for a request and its response
 * @charged: what was charged to the file for it; given back at its end
 *
 * The caller fills in the request and holds the reference that is returned.
 */
struct vaccel_request *vaccel_request_new(struct vaccel_file *file, u32 request_bytes,
					  u32 response_bytes, u64 charged)
{
	struct vaccel_device *dev = file->dev;
	struct vaccel_request *req = kzalloc(sizeof(*req), GFP_KERNEL_ACCOUNT);

	if (!req) {
		uncharge(file, charged);
		return NULL;
	}
	kref_init(&req->ref);
	kref_get(&file->ref);
	req->file = file;
	req->charged = charged;
	INIT_LIST_HEAD(&req->link);
	init_waitqueue_head(&req->wait);
	req->request = vaccel_frame_alloc(request_bytes, pieces_beside(dev, response_bytes));
	req->response = vaccel_frame_alloc(response_bytes, pieces_beside(dev, request_bytes));
	if (!req->request || !req->response) {
		vaccel_request_put(req);
		return NULL;
	}
	return req;
}

static void request_free(struct kref *ref)
{
	struct vaccel_request *req = container_of(ref, struct vaccel_request, ref);
	struct vaccel_file *file = req->file;

	vaccel_frame_free(req->request);
	vaccel_frame_free(req->response);
	vaccel_tail_free(req->request_tail);
	vaccel_tail_free(req->response_tail);
	kfree(req->object);
	uncharge(file, req->charged);
	kfree(req);
	vaccel_file_put(file);
}

void vaccel_request_put(struct vaccel_request *req)
{
	kref_put(&req->ref, request_free);
}

/* What the answer did to the objects of the file. Under file->lock. */
static void follow(struct vaccel_request *req)
{
	u16 status = get_unaligned_le16(vaccel_frame_at(req->response, WIRE_CODE_AT));

	/* A failed SUBMIT may tell an event too. */
	if (req->object && req->used >= WIRE_HEADER + 8) {
		req->object->kind = req->rule->makes;
		req->object->id = get_unaligned_le64(vaccel_frame_at(req->response, WIRE_HEADER));
		if (req->object->id) {
			vaccel_object_add(req->file, req->object);
			req->object = NULL;
		}
	}
	if (req->ends && status == STATUS_OK)
		vaccel_object_end(req->file, req->rule->ids[0].kind, req->ends);
}

/*
 * vaccel_request_finish - ends a request that was sent
 * @used: bytes that the device wrote
 * @error: 0, or why it wrote none
 *
 * Consumes the reference of the virtqueue. May run in interrupts.
 */
void vaccel_request_finish(struct vaccel_request *req, u32 used, int error)
{
	struct vaccel_file *file = req->file;
	u32 room = req->response->bytes + (req->response_tail ? req->response_tail->bytes : 0);
	unsigned long flags;

	if (used > room) {
		used = 0;
		error = -EIO;
	}
	vaccel_frame_free(req->request);
	req->request = NULL;

	spin_lock_irqsave(&file->lock, flags);
	req->used = used;
	req->error = error;
	if (used >= WIRE_HEADER) {
		void *id = vaccel_frame_at(req->response, WIRE_ID_AT);

		follow(req);
		/* An answer to something else is left as it is: the program sees it. */
		if (get_unaligned_le64(id) == req->wire_id)
			put_unaligned_le64(req->id, id);
	}
	if (!req->taken)
		list_add_tail(&req->link, &file->done);
	file->in_flight--;
	smp_store_release(&req->done, true);
	wake_up_all(&req->wait);
	wake_up_all(&file->wait);
	spin_unlock_irqrestore(&file->lock, flags);
	vaccel_request_put(req);
}

/* Begins the time in flight, with a reference for whoever finishes it. */
static void start(struct vaccel_request *req)
{
	kref_get(&req->ref);
	spin_lock_irq(&req->file->lock);
	req->file->in_flight++;
	spin_unlock_irq(&req->file->lock);
}

/*
 * vaccel_request_answer - answers a request in place of the device
 */
void vaccel_request_answer(struct vaccel_request *req, u16 status)
{
	put_unaligned_le16(status, vaccel_frame_at(req->response, WIRE_CODE_AT));
	put_unaligned_le64(req->id, vaccel_frame_at(req->response, WIRE_ID_AT));
	start(req);
	vaccel_request_finish(req, WIRE_HEADER, 0);
}

/*
 * vaccel_request_send - sends a request that was checked
 * @may_sleep: while the queue is full, until a signal; otherwise -EAGAIN
 */
int vaccel_request_send(struct vaccel_request *req, u32 queue, bool may_sleep)
{
	void *id = vaccel_frame_at(req->request, WIRE_ID_AT);
	int ret;

	if (req->rule->makes) {
		req->object = kzalloc(sizeof(*req->object), GFP_KERNEL_ACCOUNT);
		if (!req->object)
			return -ENOMEM;
	}
	req->wire_id = atomic64_inc_return(&req->file->dev->next_id);
	put_unaligned_le64(req->wire_id, id);
	start(req);
	ret = vaccel_queue_add(req->file->dev, queue, req, may_sleep);
	if (ret) {
		spin_lock_irq(&req->file->lock);
		req->file->in_flight--;
		wake_up_all(&req->file->wait);
		spin_unlock_irq(&req->file->lock);
		vaccel_request_put(req);
	}
	return ret;
}
