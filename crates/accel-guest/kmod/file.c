// SPDX-License-Identifier: GPL-2.0
/* An open file: the calls of accel_uapi.h. */

#include <linux/slab.h>
#include <linux/uaccess.h>

#include "virtio_accel.h"

struct vaccel_file *vaccel_file_open(struct vaccel_device *dev)
{
	struct vaccel_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return NULL;
	kref_init(&file->ref);
	kref_get(&dev->ref);
	file->dev = dev;
	xa_init_flags(&file->requests, XA_FLAGS_ALLOC1);
	xa_init_flags(&file->buffers, XA_FLAGS_ALLOC1);
	spin_lock_init(&file->lock);
	file->objects = RB_ROOT;
	INIT_LIST_HEAD(&file->done);
	init_waitqueue_head(&file->wait);
	INIT_WORK(&file->reap, vaccel_reap);
	mutex_lock(&dev->files_lock);
	list_add_tail(&file->link, &dev->files);
	mutex_unlock(&dev->files_lock);
	return file;
}

static void file_free(struct kref *ref)
{
	struct vaccel_file *file = container_of(ref, struct vaccel_file, ref);

	vaccel_objects_free(file);
	vaccel_device_put(file->dev);
	kfree(file);
}

void vaccel_file_put(struct vaccel_file *file)
{
	kref_put(&file->ref, file_free);
}

/* Takes a request out of the file; false if somebody else did. */
static bool take(struct vaccel_request *req)
{
	struct vaccel_file *file = req->file;

	if (xa_cmpxchg(&file->requests, req->cookie, req, NULL, 0) != req)
		return false;
	spin_lock_irq(&file->lock);
	req->taken = true;
	list_del_init(&req->link);
	spin_unlock_irq(&file->lock);
	vaccel_request_put(req);
	return true;
}

/*
 * vaccel_file_close - the program is done with the file
 *
 * What it left on the device is ended later by the reaper.
 */
void vaccel_file_close(struct vaccel_file *file)
{
	struct vaccel_device *dev = file->dev;
	struct vaccel_request *req;
	unsigned long cookie;

	xa_for_each(&file->requests, cookie, req)
		take(req);
	xa_destroy(&file->requests);
	vaccel_buffers_end(file);
	mutex_lock(&dev->files_lock);
	list_del(&file->link);
	mutex_unlock(&dev->files_lock);
	queue_work(vaccel_reaper, &file->reap);
}

static int get_info(struct vaccel_file *file, void __user *arg)
{
	struct vaccel_device *dev = file->dev;
	struct vaccel_info info = {
		.version = VACCEL_VERSION,
		.queues = dev->queue_count,
		.max_requests = VACCEL_MAX_REQUESTS,
		.max_bytes = dev->max_file_bytes,
	};

	memcpy(info.config, dev->config, sizeof(info.config));
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * Counts a request on its file: -EAGAIN if it has to wait for others to end,
 * -EBUSY if the program first has to take a response.
 */
static int charge(struct vaccel_file *file, u64 bytes)
{
	int ret = 0;

	spin_lock_irq(&file->lock);
	if (READ_ONCE(file->dev->dead)) {
		ret = -ENODEV;
	} else if (file->charged_requests < VACCEL_MAX_REQUESTS &&
		   file->charged_bytes + bytes <= file->dev->max_file_bytes) {
		file->charged_requests++;
		file->charged_bytes += bytes;
	} else {
		ret = list_empty(&file->done) ? -EAGAIN : -EBUSY;
	}
	spin_unlock_irq(&file->lock);
	return ret;
}

/* Adds the parts of buffers that continue the frames. */
static int add_tails(struct vaccel_request *req, const struct vaccel_submit *args)
{
	struct vaccel_tail *tail;
	u32 pieces = req->request->pieces + req->response->pieces;

	tail = vaccel_tail_new(req->file, &args->request_tail);
	if (IS_ERR(tail))
		return PTR_ERR(tail);
	req->request_tail = tail;
	if (tail)
		pieces += tail->pieces;
	tail = vaccel_tail_new(req->file, &args->response_tail);
	if (IS_ERR(tail))
		return PTR_ERR(tail);
	req->response_tail = tail;
	if (tail)
		pieces += tail->pieces;
	return pieces > req->file->dev->max_pieces ? -EMSGSIZE : 0;
}

/* A request with the frame of the program, charged to the file. */
static struct vaccel_request *read_request(struct vaccel_file *file,
					   const struct vaccel_submit *args, bool may_sleep)
{
	u64 bytes = PAGE_ALIGN((u64)args->request_bytes) + PAGE_ALIGN((u64)args->response_bytes);
	struct vaccel_request *req;
	int ret;

	ret = charge(file, bytes);
	if (ret == -EAGAIN && may_sleep &&
	    wait_event_interruptible(file->wait, (ret = charge(file, bytes)) != -EAGAIN))
		ret = -EINTR;
	if (ret)
		return ERR_PTR(ret);
	req = vaccel_request_new(file, args->request_bytes, args->response_bytes, bytes);
	if (!req)
		return ERR_PTR(-ENOMEM);
	ret = vaccel_frame_from_user(req->request, u64_to_user_ptr(args->request));
	if (!ret)
		ret = add_tails(req, args);
	if (ret) {
		vaccel_request_put(req);
		return ERR_PTR(ret);
	}
	req->id = get_unaligned_le64(vaccel_frame_at(req->request, WIRE_ID_AT));
	return req;
}

static int submit(struct vaccel_file *file, void __user *arg, bool may_sleep)
{
	struct vaccel_device *dev = file->dev;
	struct vaccel_submit args;
	struct vaccel_request *req;
	u16 status;
	int ret;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags || args.queue >= dev->queue_count ||
	    args.request_bytes < WIRE_HEADER || args.response_bytes < WIRE_HEADER)
		return -EINVAL;
	/* Two of the largest frames fit max_file_bytes. */
	if ((u64)args.request_bytes + args.request_tail.bytes > dev->max_request ||
	    (u64)args.response_bytes + args.response_tail.bytes > dev->max_response)
		return -EMSGSIZE;
	req = read_request(file, &args, may_sleep);
	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = xa_alloc_cyclic(&file->requests, &req->cookie, req, xa_limit_32b,
			      &file->next_cookie, GFP_KERNEL_ACCOUNT);
	if (ret < 0) {
		vaccel_request_put(req);
		return ret;
	}
	/* From here file->requests has a reference, and so have we. */
	kref_get(&req->ref);
	args.cookie = req->cookie;
	/* Once it is sent there is no way back, so the program hears first. */
	ret = copy_to_user(arg, &args, sizeof(args)) ? -EFAULT : 0;
	if (!ret) {
		status = vaccel_check(req);
		if (status != STATUS_OK)
			vaccel_request_answer(req, status);
		else
			ret = vaccel_request_send(req, args.queue, may_sleep);
	}
	if (ret) {
		take(req);
		/* For a thread that guessed the cookie. */
		smp_store_release(&req->done, true);
		wake_up_all(&req->wait);
	}
	vaccel_request_put(req);
	return ret == -ERESTARTSYS ? -EINTR : ret;
}

/* The request of a cookie, with a reference. */
static struct vaccel_request *get_request(struct vaccel_file *file, u64 cookie)
{
	struct vaccel_request *req = NULL;

	if (cookie > U32_MAX)
		return NULL;
	xa_lock(&file->requests);
	req = xa_load(&file->requests, cookie);
	if (req)
		kref_get(&req->ref);
	xa_unlock(&file->requests);
	return req;
}

/* Any request that is done, with a reference; -EAGAIN if one may come. */
static struct vaccel_request *get_done(struct vaccel_file *file)
{
	struct vaccel_request *req;

	spin_lock_irq(&file->lock);
	req = list_first_entry_or_null(&file->done, struct vaccel_request, link);
	if (req)
		kref_get(&req->ref);
	else
		req = ERR_PTR(file->in_flight ? -EAGAIN : -ENOENT);
	spin_unlock_irq(&file->lock);
	return req;
}

static ktime_t as_ktime(u64 ns)
{
	return ns > KTIME_MAX ? KTIME_MAX : ns_to_ktime(ns);
}

/* Sleeps until a request is done, and returns it with a reference. */
static struct vaccel_request *sleep_for(struct vaccel_file *file, u64 cookie, ktime_t timeout)
{
	struct vaccel_request *req;
	long ret;

	if (!cookie) {
		req = get_done(file);
		if (req != ERR_PTR(-EAGAIN))
			return req;
		if (!timeout)
			return ERR_PTR(-ETIME);
		ret = wait_event_interruptible_hrtimeout(file->wait,
							 (req = get_done(file)) !=
							 ERR_PTR(-EAGAIN), timeout);
		return ret ? ERR_PTR(ret) : req;
	}
	req = get_request(file, cookie);
	if (!req)
		return ERR_PTR(-ENOENT);
	ret = 0;
	if (!smp_load_acquire(&req->done))
		ret = !timeout ? -ETIME :
		      wait_event_interruptible_hrtimeout(req->wait,
							 smp_load_acquire(&req->done), timeout);
	if (ret) {
		vaccel_request_put(req);
		return ERR_PTR(ret);
	}
	return req;
}

static int wait(struct vaccel_file *file, void __user *arg)
{
	struct vaccel_request *req;
	struct vaccel_wait args;
	u64 wanted;
	u32 head;
	int ret;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	wanted = args.cookie;
again:
	req = sleep_for(file, wanted, as_ktime(args.timeout_ns));
	if (IS_ERR(req))
		return PTR_ERR(req) == -ERESTARTSYS ? -EINTR : PTR_ERR(req);

	ret = 0;
	head = min(req->used, req->response->bytes);
	if (args.response_bytes < head)
		ret = -ENOSPC;
	else if (vaccel_frame_to_user(req->response, u64_to_user_ptr(args.response), head))
		ret = -EFAULT;
	if (!ret && !take(req)) {
		/* Another thread was faster. */
		vaccel_request_put(req);
		if (!wanted)
			goto again;
		return -ENOENT;
	}
	args.cookie = req->cookie;
	args.response_bytes = ret ? head : req->used;
	if (ret != -EFAULT && copy_to_user(arg, &args, sizeof(args)))
		ret = -EFAULT;
	if (!ret)
		ret = req->error;
	vaccel_request_put(req);
	return ret;
}

static int forget(struct vaccel_file *file, void __user *arg)
{
	struct vaccel_request *req;
	struct vaccel_forget args;
	int ret;

	if (copy_from_user(&args, arg, sizeof(args)))
		return -EFAULT;
	req = get_request(file, args.cookie);
	if (!req)
		return -ENOENT;
	ret = take(req) ? 0 : -ENOENT;
	vaccel_request_put(req);
	return ret;
}

/*
 * vaccel_file_ioctl - a call
 * @may_sleep: when a command queue is full
 */
long vaccel_file_ioctl(struct vaccel_file *file, unsigned int cmd, void __user *arg,
		       bool may_sleep)
{
	/* Responses that came before the device went can still be taken, and memory freed. */
	if (READ_ONCE(file->dev->dead) && cmd != VACCEL_IOC_WAIT && cmd != VACCEL_IOC_FORGET &&
	    cmd != VACCEL_IOC_BUFFER_FREE)
		return -ENODEV;
	switch (cmd) {
	case VACCEL_IOC_INFO:
		return get_info(file, arg);
	case VACCEL_IOC_SUBMIT:
		return submit(file, arg, may_sleep);
	case VACCEL_IOC_WAIT:
		return wait(file, arg);
	case VACCEL_IOC_FORGET:
		return forget(file, arg);
	case VACCEL_IOC_BUFFER:
		return vaccel_buffer_make(file, arg);
	case VACCEL_IOC_BUFFER_FREE:
		return vaccel_buffer_free(file, arg);
	default:
		return -ENOTTY;
	}
}

__poll_t vaccel_file_poll(struct vaccel_file *file, struct file *filp, poll_table *table)
{
	__poll_t mask = 0;

	poll_wait(filp, &file->wait, table);
	spin_lock_irq(&file->lock);
	if (!list_empty(&file->done))
		mask = EPOLLIN | EPOLLRDNORM;
	spin_unlock_irq(&file->lock);
	if (READ_ONCE(file->dev->dead))
		mask |= EPOLLERR | EPOLLHUP;
	return mask;
}
