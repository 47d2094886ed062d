/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the device's protocol that the driver itself must know. */
#ifndef VIRTIO_ACCEL_WIRE_H
#define VIRTIO_ACCEL_WIRE_H

#include <linux/types.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* Configuration space. */
#define WIRE_CONFIG_PREFIX	16
#define WIRE_MAJOR_AT		0
#define WIRE_MAX_CHAIN_AT	6
#define WIRE_MAX_REQUEST_AT	8
#define WIRE_MAX_RESPONSE_AT	12
#define WIRE_MAGIC_AT		16
#define WIRE_LENGTH_AT		20
#define WIRE_EXTENSIONS_AT	24
#define WIRE_QUEUES_AT		32
#define WIRE_MAGIC		0x31545841
#define WIRE_BLOCK_BYTES	48
#define WIRE_MAX_FRAME		(16u << 20)
#define WIRE_MIN_REQUEST	97
#define WIRE_MIN_RESPONSE	92
#define WIRE_EXT_WAIT_EVENT	(1u << 1)

/* Headers of requests and responses: code, flags, payload_bytes, id. */
#define WIRE_HEADER		16
#define WIRE_CODE_AT		0
#define WIRE_FLAGS_AT		2
#define WIRE_PAYLOAD_AT		4
#define WIRE_ID_AT		8

enum vaccel_kind {
	KIND_ANY,
	KIND_CONTEXT,
	KIND_BUFFER,
	KIND_PROGRAM,
	KIND_QUEUE,
	KIND_EVENT,
};

enum {
	STATUS_OK = 0,
	STATUS_UNSUPPORTED = 1,
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_BUSY = 5,
	STATUS_STALE_OBJECT = 11,
};

enum {
	OP_GET_DEVICE_INFO = 0x0001,
	OP_CREATE_CONTEXT = 0x0100,
	OP_DESTROY_CONTEXT = 0x0101,
	OP_ALLOCATE_BUFFER = 0x0200,
	OP_FREE_BUFFER = 0x0201,
	OP_WRITE_BUFFER = 0x0202,
	OP_READ_BUFFER = 0x0203,
	OP_LOAD_PROGRAM = 0x0300,
	OP_UNLOAD_PROGRAM = 0x0301,
	OP_CREATE_QUEUE = 0x0400,
	OP_DESTROY_QUEUE = 0x0401,
	OP_SUBMIT = 0x0500,
	OP_POLL_EVENT = 0x0501,
	OP_CANCEL_EVENT = 0x0502,
	OP_DESTROY_EVENT = 0x0503,
	OP_EXECUTE = 0x8000,
	OP_WAIT_EVENT = 0x8001,
	OP_LOAD_PROGRAM_FROM_BUFFER = 0x8002,
	OP_QUERY = 0x8003,
	OP_COPY_BUFFER = 0x8004,
};

/* Where a request names objects. Offsets count from behind the header. */
struct vaccel_rule {
	u16 opcode;
	u8 head;			/* bytes of the fixed part */
	u8 bindings;			/* bindings follow it */
	u8 ends;			/* an OK answer ends ids[0] */
	enum vaccel_kind makes;		/* an answer carries the id of a new one */
	u8 id_count;
	struct {
		u8 at;
		enum vaccel_kind kind;
	} ids[2];
};

#define WIRE_BINDING		32	/* its buffer's id comes first */

#endif
