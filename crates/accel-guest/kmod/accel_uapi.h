/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * Interface between virtio_accel and programs, version 2.
 *
 * A program opens the device node, sends whole request frames of the device's
 * protocol and takes whole response frames, as spec/commands.md and
 * spec/extensions.md define them. The driver adds what a shared device needs:
 *
 *  - Every object (context, buffer, program, execution queue, event) belongs to
 *    the open file through which it was made. A request that names an object of
 *    another file is answered STALE_OBJECT and never reaches the device. An id
 *    of 0 is nobody's: the device refuses it.
 *  - When the last descriptor of the file is closed, everything that belongs to
 *    it is ended, also after the program was killed.
 *  - Request ids are the driver's on the way to the device. A response carries
 *    the id that the program sent.
 *
 * All structures have the same layout for 32-bit and 64-bit programs.
 *
 * Errors of every call: ENODEV the device is gone (for good: open the node
 * anew); ENOTTY unknown call; EFAULT bad pointer; EINVAL a field breaks a rule.
 */
#ifndef VACCEL_UAPI_H
#define VACCEL_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Version 1 had neither buffers nor tails. */
#define VACCEL_VERSION		2
#define VACCEL_CONFIG_BYTES	64
#define VACCEL_FOREVER		(~(__u64)0)

/* What there is to know before the first request. */
struct vaccel_info {
	__u32 version;		/* VACCEL_VERSION; a program refuses another */
	__u32 queues;		/* command queues, at least 1 */
	__u32 max_requests;	/* of one file, in flight or not yet taken */
	__u32 max_bytes;	/* of their frames without tails, each rounded
				 * up to pages
				 */
	__u8 config[VACCEL_CONFIG_BYTES]; /* configuration space; zero from 16 on
					   * where the device has no extensions
					   */
};

/*
 * Makes a buffer: zeroed pages of the driver's, for the program to map and for
 * requests to carry without a copy. The handle belongs to the open file. mmap of
 * the node at @offset, or at a page behind it, maps it; only MAP_SHARED, and not
 * beyond its end (EINVAL). A child of the program does not inherit the mapping.
 *
 * ENOSPC the limit of the file or of all files is reached (the parameters
 * file_buffer_mib and buffer_mib of the module), or it has 65,535 buffers;
 * EINVAL also for more than 256 MiB; ENOMEM.
 */
struct vaccel_buffer {
	__u64 bytes;		/* in: at least 1; out: rounded up */
	__u64 offset;		/* out: where mmap finds it */
	__u32 handle;		/* out: never 0 */
	__u32 flags;		/* 0 */
};

/*
 * Frees a handle. Mappings stay until munmap, and requests in flight keep what
 * they carry; the pages count on the limits until then. Closing the file frees
 * all of its handles. ENOENT no such handle.
 */
struct vaccel_buffer_free {
	__u32 handle;
	__u32 flags;		/* 0 */
};

/* A part of a buffer. All zero: none. */
struct vaccel_part {
	__u32 handle;
	__u32 bytes;		/* at least 1 */
	__u64 offset;		/* in the buffer, of any alignment */
};

/*
 * Sends a request. The frame is what lies at @request, followed by @request_tail
 * if there is one; the response likewise fills @response_bytes of the driver's
 * memory, to be taken by WAIT, and what is longer goes to @response_tail. The
 * device reads and writes tails in place, at any time until the response is
 * there, whatever the program does to them meanwhile.
 *
 * Object ids have to lie in heads: a tail of a SUBMIT or EXECUTE, or for the
 * response of a command that makes an object, is answered INVALID_ARGUMENT.
 *
 * Sleeps while the command queue is full, and while the limits
 * of the file are reached and there is no response to take (EAGAIN with
 * O_NONBLOCK; EINTR by a signal; nothing was sent then).
 *
 * EBUSY the limits of the file are reached, and there is a response to take;
 * EMSGSIZE a frame with its tail is beyond max_request_bytes or
 * max_response_bytes of the configuration space, or lies in more pieces than the
 * device takes; ENOENT no such buffer; EINVAL also for a part beyond the end of
 * its buffer; ENOMEM.
 */
struct vaccel_submit {
	__u64 request;		/* address of the frame, header included, or its head */
	__u32 request_bytes;	/* at least 16 */
	__u32 response_bytes;	/* room for the response, at least 16 */
	__u32 queue;		/* command queue, from 0 */
	__u32 flags;		/* 0 */
	__u64 cookie;		/* out: names the request, never 0 */
	struct vaccel_part request_tail;
	struct vaccel_part response_tail;
};

/*
 * Takes the response of a request, or of any request whose response is there.
 * The file is readable (poll) while there is a response to take.
 *
 * ETIME no response in time, the request stays; EINTR a signal came, likewise;
 * ENOSPC the room is too small for the response without its tail, response_bytes
 * says what is needed, the response stays; ENOENT no such request (any more), or with cookie 0 none in
 * flight; EIO the device broke the rules of the queue; ENODEV the device went
 * away before it answered.
 */
struct vaccel_wait {
	__u64 cookie;		/* in: of the request, or 0 for any; out: whose it is */
	__u64 timeout_ns;	/* 0 does not sleep, VACCEL_FOREVER has no end */
	__u64 response;		/* address of the room */
	__u32 response_bytes;	/* in: the room; out: bytes that the device wrote,
				 * also to the tail; 0 if it wrote none
				 */
	__u32 flags;		/* 0 */
};

/*
 * Drops a request: its response is thrown away, now or when it comes. The
 * device still carries it out. ENOENT as above.
 */
struct vaccel_forget {
	__u64 cookie;
};

#define VACCEL_IOC		0xea
#define VACCEL_IOC_INFO		_IOR(VACCEL_IOC, 0, struct vaccel_info)
#define VACCEL_IOC_SUBMIT	_IOWR(VACCEL_IOC, 1, struct vaccel_submit)
#define VACCEL_IOC_WAIT		_IOWR(VACCEL_IOC, 2, struct vaccel_wait)
#define VACCEL_IOC_FORGET	_IOW(VACCEL_IOC, 3, struct vaccel_forget)
#define VACCEL_IOC_BUFFER	_IOWR(VACCEL_IOC, 4, struct vaccel_buffer)
#define VACCEL_IOC_BUFFER_FREE	_IOW(VACCEL_IOC, 5, struct vaccel_buffer_free)

#endif
