// SPDX-License-Identifier: GPL-2.0
/* Virtqueues: chains out, chains back. */

#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/virtio_config.h>

#include "virtio_accel.h"

/* Called by the interrupt. */
static void chains_came_back(struct virtqueue *vq)
{
	struct vaccel_device *dev = vq->vdev->priv;
	struct vaccel_queue *queue = &dev->queues[vq->index];
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	do {
		struct vaccel_request *req;
		u32 used;

		virtqueue_disable_cb(vq);
		while ((req = virtqueue_get_buf(vq, &used))) {
			queue->returned++;
			vaccel_request_finish(req, used, 0);
		}
	} while (!virtqueue_enable_cb(vq));
	spin_unlock_irqrestore(&queue->lock, flags);
	wake_up_all(&queue->room);
}

static int find_queues(struct vaccel_device *dev, u32 count)
{
	struct virtqueue *vqs[VACCEL_MAX_QUEUES];
	u32 i;
	int ret;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct virtqueue_info infos[VACCEL_MAX_QUEUES] = {};

	for (i = 0; i < count; i++) {
		infos[i].name = "command";
		infos[i].callback = chains_came_back;
	}
	ret = virtio_find_vqs(dev->vdev, count, vqs, infos, NULL);
#else
	vq_callback_t *callbacks[VACCEL_MAX_QUEUES];
	const char *names[VACCEL_MAX_QUEUES];

	for (i = 0; i < count; i++) {
		names[i] = "command";
		callbacks[i] = chains_came_back;
	}
	ret = virtio_find_vqs(dev->vdev, count, vqs, callbacks, names, NULL);
#endif
	if (ret)
		return ret;
	for (i = 0; i < count; i++)
		dev->queues[i].vq = vqs[i];
	dev->queue_count = count;
	return 0;
}

/*
 * vaccel_queues_init - finds the command queues
 *
 * The device may serve more than the machine monitor was told to give it, and
 * virtio has no way to ask: so fewer are tried until it works.
 */
int vaccel_queues_init(struct vaccel_device *dev)
{
	u32 count = clamp_t(u32, get_unaligned_le16(dev->config + WIRE_QUEUES_AT), 1,
			    VACCEL_MAX_QUEUES);
	u32 i;
	int ret;

	for (i = 0; i < VACCEL_MAX_QUEUES; i++) {
		spin_lock_init(&dev->queues[i].lock);
		init_waitqueue_head(&dev->queues[i].room);
	}
	do {
		ret = find_queues(dev, count);
	} while ((ret == -ENOENT || ret == -EINVAL) && --count);
	if (ret)
		return ret;
	for (i = 0; i < dev->queue_count; i++)
		dev->max_pieces = min(dev->max_pieces,
				      virtqueue_get_vring_size(dev->queues[i].vq));
	if (dev->max_pieces < 2) {
		dev->vdev->config->del_vqs(dev->vdev);
		return -EINVAL;
	}
	return 0;
}

/*
 * vaccel_queues_stop - resets the device and takes everything back from it
 *
 * Everybody who sleeps for an answer gets -ENODEV. Nobody touches a virtqueue
 * afterwards.
 */
void vaccel_queues_stop(struct vaccel_device *dev)
{
	struct vaccel_request *req;
	struct vaccel_file *file;
	u32 i;

	down_write(&dev->alive);
	WRITE_ONCE(dev->dead, true);
	up_write(&dev->alive);

	virtio_reset_device(dev->vdev);
	for (i = 0; i < dev->queue_count; i++) {
		while ((req = virtqueue_detach_unused_buf(dev->queues[i].vq)))
			vaccel_request_finish(req, 0, -ENODEV);
		wake_up_all(&dev->queues[i].room);
	}
	dev->vdev->config->del_vqs(dev->vdev);

	mutex_lock(&dev->files_lock);
	list_for_each_entry(file, &dev->files, link)
		wake_up_all(&file->wait);
	mutex_unlock(&dev->files_lock);
}

/* -ENOSPC when the chain does not fit now; *@seen tells when to look again. */
static int try_add(struct vaccel_device *dev, struct vaccel_queue *queue,
		   struct vaccel_request *req, unsigned long *seen)
{
	struct scatterlist *lists[4];
	unsigned int out = 0, in = 0;
	bool kick = false;
	int ret = -ENODEV;

	lists[out++] = req->request->sg;
	if (req->request_tail)
		lists[out++] = req->request_tail->sg;
	lists[out + in++] = req->response->sg;
	if (req->response_tail)
		lists[out + in++] = req->response_tail->sg;
	down_read(&dev->alive);
	if (!dev->dead) {
		spin_lock_irq(&queue->lock);
		*seen = queue->returned;
		ret = virtqueue_add_sgs(queue->vq, lists, out, in, req, GFP_ATOMIC);
		if (!ret)
			kick = virtqueue_kick_prepare(queue->vq);
		spin_unlock_irq(&queue->lock);
		if (kick)
			virtqueue_notify(queue->vq);
	}
	up_read(&dev->alive);
	/* The core calls a device that was pulled out broken. */
	return ret == -EIO ? -ENODEV : ret;
}

/*
 * vaccel_queue_add - gives a request to the device
 *
 * With success the virtqueue owns the caller's reference until
 * vaccel_request_finish().
 */
int vaccel_queue_add(struct vaccel_device *dev, u32 index, struct vaccel_request *req,
		     bool may_sleep)
{
	struct vaccel_queue *queue = &dev->queues[index];
	unsigned long seen;
	int ret;

	while ((ret = try_add(dev, queue, req, &seen)) == -ENOSPC) {
		if (!may_sleep)
			return -EAGAIN;
		ret = wait_event_interruptible(queue->room,
					       READ_ONCE(dev->dead) ||
					       READ_ONCE(queue->returned) != seen);
		if (ret)
			return ret;
	}
	return ret;
}
