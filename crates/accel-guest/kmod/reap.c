// SPDX-License-Identifier: GPL-2.0
/* Ends what a closed file left on the device. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/string.h>

#include "virtio_accel.h"

struct workqueue_struct *vaccel_reaper;

/* Longest pause between two looks at an event of a device without WAIT_EVENT. */
#define MAX_PAUSE_MS	100

/* Sends a command about one object; its status, or a negative error. */
static int command(struct vaccel_file *file, u16 opcode, u64 id, u32 payload)
{
	struct vaccel_request *req;
	int ret;

	/* WAIT_EVENT has the longest answer. */
	req = vaccel_request_new(file, WIRE_HEADER + payload, WIRE_HEADER + 16, 0);
	if (!req)
		return -ENOMEM;
	put_unaligned_le16(opcode, vaccel_frame_at(req->request, WIRE_CODE_AT));
	put_unaligned_le32(payload, vaccel_frame_at(req->request, WIRE_PAYLOAD_AT));
	put_unaligned_le64(id, vaccel_frame_at(req->request, WIRE_HEADER));
	req->taken = true;
	ret = vaccel_check(req);
	if (!ret)
		ret = vaccel_request_send(req, 0, true);
	if (!ret) {
		wait_event_idle(req->wait, smp_load_acquire(&req->done));
		if (req->error)
			ret = req->error;
		else if (req->used < WIRE_HEADER)
			ret = -EIO;
		else
			ret = get_unaligned_le16(vaccel_frame_at(req->response, WIRE_CODE_AT));
	}
	vaccel_request_put(req);
	return ret;
}

static bool drained(struct vaccel_file *file)
{
	bool empty;

	spin_lock_irq(&file->lock);
	empty = !file->in_flight;
	spin_unlock_irq(&file->lock);
	return empty;
}

static void cancel_events(struct vaccel_file *file)
{
	u64 id = 0;

	while ((id = vaccel_object_next(file, KIND_EVENT, id)))
		if (command(file, OP_CANCEL_EVENT, id, 8) < 0)
			return;
}

/* A pending event cannot be destroyed, so its end is waited for. */
static int end_event(struct vaccel_file *file, u64 id)
{
	unsigned int pause = 1;
	int ret;

	while ((ret = command(file, OP_DESTROY_EVENT, id, 8)) == STATUS_BUSY) {
		if (file->dev->extensions & WIRE_EXT_WAIT_EVENT) {
			ret = command(file, OP_WAIT_EVENT, id, 16);
			if (ret)
				return ret;
		} else {
			msleep(pause);
			pause = min(2 * pause, MAX_PAUSE_MS);
		}
	}
	return ret;
}

static const struct {
	enum vaccel_kind kind;
	u16 opcode;
} steps[] = {
	{ KIND_EVENT, OP_DESTROY_EVENT },
	{ KIND_QUEUE, OP_DESTROY_QUEUE },
	{ KIND_PROGRAM, OP_UNLOAD_PROGRAM },
	{ KIND_BUFFER, OP_FREE_BUFFER },
	{ KIND_CONTEXT, OP_DESTROY_CONTEXT },
};

static void end_objects(struct vaccel_file *file)
{
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		u64 id = 0;

		while ((id = vaccel_object_next(file, steps[i].kind, id))) {
			if (steps[i].kind == KIND_EVENT)
				ret = end_event(file, id);
			else
				ret = command(file, steps[i].opcode, id, 8);
			if (ret == -ENODEV)
				return;
			if (ret)
				pr_warn_ratelimited("an object of a closed file stays until the device is reset (%d)\n",
						    ret);
		}
	}
}

/*
 * vaccel_reap - work that ends everything of a closed file, then the file
 *
 * Frames in flight stay the driver's until the device returns them: an EXECUTE
 * cannot be called back, and one of them may make an object.
 */
void vaccel_reap(struct work_struct *work)
{
	struct vaccel_file *file = container_of(work, struct vaccel_file, reap);

	cancel_events(file);
	wait_event_idle(file->wait, drained(file));
	cancel_events(file);
	end_objects(file);
	vaccel_file_put(file);
}
