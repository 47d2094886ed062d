/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of this driver share. */
#ifndef VIRTIO_ACCEL_H
#define VIRTIO_ACCEL_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "accel_uapi.h"
#include "wire.h"

/* Command queues used at most. */
#define VACCEL_MAX_QUEUES	16
/* Requests of one file that are in flight or whose response was not taken. */
#define VACCEL_MAX_REQUESTS	1024

struct vaccel_queue {
	struct virtqueue *vq;
	spinlock_t lock;		/* of vq and returned */
	unsigned long returned;		/* chains that came back */
	wait_queue_head_t room;		/* returned grew */
};

/*
 * One device. Lives until it was removed and the last file that it was opened
 * by has been reaped. The virtqueues end with removal: whoever touches one
 * holds @alive and has seen that @dead is false.
 */
struct vaccel_device {
	struct kref ref;
	struct virtio_device *vdev;
	struct rw_semaphore alive;
	bool dead;
	u8 config[VACCEL_CONFIG_BYTES];
	u32 max_request;		/* bytes of a frame, header included */
	u32 max_response;
	u32 max_pieces;			/* descriptors of a chain */
	u32 max_file_bytes;
	u64 extensions;
	atomic64_t next_id;
	struct mutex files_lock;
	struct list_head files;
#if IS_ENABLED(CONFIG_DRM_ACCEL)
	struct drm_device *drm;
#else
	struct miscdevice misc;
	int number;
#endif
	u32 queue_count;
	struct vaccel_queue queues[VACCEL_MAX_QUEUES];
};

/* The head of a frame, or all of it, in pieces of one size except the last. */
struct vaccel_frame {
	u32 bytes;
	u32 pieces;
	u32 piece_bytes;		/* a power of two */
	struct scatterlist sg[];
};

struct vaccel_pages;

/* What follows a frame's head: a part of a buffer, in pieces. */
struct vaccel_tail {
	struct vaccel_pages *pages;
	u32 bytes;
	u32 pieces;
	struct scatterlist sg[];
};

struct vaccel_object {
	struct rb_node node;
	u64 id;
	enum vaccel_kind kind;
};

/*
 * One open file, and one client of the device. References: the open file (later
 * its reaper), every request in flight, and the pages of every buffer.
 */
struct vaccel_file {
	struct kref ref;
	struct vaccel_device *dev;
	struct list_head link;		/* in dev->files */
	struct xarray requests;		/* by cookie, until taken or forgotten */
	u32 next_cookie;
	struct xarray buffers;		/* by handle, until freed */
	u32 next_handle;
	spinlock_t lock;		/* of all below; taken in interrupts */
	struct rb_root objects;
	struct list_head done;		/* requests to take */
	u32 in_flight;
	u32 charged_requests;		/* that exist, whoever holds them */
	u64 charged_bytes;		/* of their frames, without tails */
	u64 buffer_bytes;		/* of buffers whose pages exist */
	wait_queue_head_t wait;		/* any of these changed, or dev->dead */
	struct work_struct reap;
};

/* References: file->requests, the virtqueue, and every sleeper. */
struct vaccel_request {
	struct kref ref;
	struct vaccel_file *file;
	struct list_head link;		/* file->done */
	struct vaccel_frame *request;	/* gone when done */
	struct vaccel_frame *response;
	struct vaccel_tail *request_tail;	/* or NULL */
	struct vaccel_tail *response_tail;
	struct vaccel_object *object;	/* place for what the request makes */
	const struct vaccel_rule *rule;
	u64 ends;			/* object that an OK answer ends, or 0 */
	u64 id;				/* as the program sent it */
	u64 wire_id;
	u64 charged;			/* of file->charged_bytes */
	u32 cookie;
	u32 used;			/* bytes of the response */
	int error;			/* why there is none */
	bool taken;			/* nobody will ask for the response */
	bool done;			/* everything above is final */
	wait_queue_head_t wait;
};

/* frame.c */
struct vaccel_frame *vaccel_frame_alloc(u32 bytes, u32 max_pieces);
void vaccel_frame_free(struct vaccel_frame *frame);
int vaccel_frame_from_user(struct vaccel_frame *frame, const void __user *from);
int vaccel_frame_to_user(struct vaccel_frame *frame, void __user *to, u32 bytes);
void *vaccel_frame_at(struct vaccel_frame *frame, u32 offset);

/* pages.c */
int vaccel_buffer_make(struct vaccel_file *file, void __user *arg);
int vaccel_buffer_free(struct vaccel_file *file, void __user *arg);
int vaccel_buffer_mmap(struct vaccel_file *file, struct vm_area_struct *vma);
void vaccel_buffers_end(struct vaccel_file *file);
struct vaccel_tail *vaccel_tail_new(struct vaccel_file *file, const struct vaccel_part *part);
void vaccel_tail_free(struct vaccel_tail *tail);

/* object.c */
void vaccel_object_add(struct vaccel_file *file, struct vaccel_object *object);
void vaccel_object_end(struct vaccel_file *file, enum vaccel_kind kind, u64 id);
u64 vaccel_object_next(struct vaccel_file *file, enum vaccel_kind kind, u64 after);
void vaccel_objects_free(struct vaccel_file *file);
u16 vaccel_check(struct vaccel_request *req);

/* request.c */
struct vaccel_request *vaccel_request_new(struct vaccel_file *file, u32 request_bytes,
					  u32 response_bytes, u64 charged);
void vaccel_request_put(struct vaccel_request *req);
int vaccel_request_send(struct vaccel_request *req, u32 queue, bool may_sleep);
void vaccel_request_answer(struct vaccel_request *req, u16 status);
void vaccel_request_finish(struct vaccel_request *req, u32 used, int error);

/* queue.c */
int vaccel_queues_init(struct vaccel_device *dev);
void vaccel_queues_stop(struct vaccel_device *dev);
int vaccel_queue_add(struct vaccel_device *dev, u32 queue, struct vaccel_request *req,
		     bool may_sleep);

/* file.c */
struct vaccel_file *vaccel_file_open(struct vaccel_device *dev);
void vaccel_file_close(struct vaccel_file *file);
void vaccel_file_put(struct vaccel_file *file);
long vaccel_file_ioctl(struct vaccel_file *file, unsigned int cmd, void __user *arg,
		       bool may_sleep);
__poll_t vaccel_file_poll(struct vaccel_file *file, struct file *filp, poll_table *table);

/* reap.c */
void vaccel_reap(struct work_struct *work);
extern struct workqueue_struct *vaccel_reaper;

/* node_misc.c or node_drm.c */
int vaccel_node_add(struct vaccel_device *dev);
void vaccel_node_remove(struct vaccel_device *dev);

/* main.c */
void vaccel_device_put(struct vaccel_device *dev);

#endif
