// SPDX-License-Identifier: GPL-2.0
/*
 * Whose is an object: every file knows the ids of what was made through it, and
 * a request goes to the device only if it names nothing else. The device never
 * gives an id twice, so an id that was checked cannot become another file's.
 */

#include <linux/slab.h>

#include "virtio_accel.h"

static const struct vaccel_rule rules[] = {
	{ .opcode = OP_GET_DEVICE_INFO },
	{ .opcode = OP_CREATE_CONTEXT, .head = 8, .makes = KIND_CONTEXT },
	{ .opcode = OP_DESTROY_CONTEXT, .head = 8, .ends = 1,
	  .id_count = 1, .ids = { { 0, KIND_CONTEXT } } },
	{ .opcode = OP_ALLOCATE_BUFFER, .head = 40, .makes = KIND_BUFFER,
	  .id_count = 1, .ids = { { 0, KIND_CONTEXT } } },
	{ .opcode = OP_FREE_BUFFER, .head = 8, .ends = 1,
	  .id_count = 1, .ids = { { 0, KIND_BUFFER } } },
	{ .opcode = OP_WRITE_BUFFER, .head = 24,
	  .id_count = 1, .ids = { { 0, KIND_BUFFER } } },
	{ .opcode = OP_READ_BUFFER, .head = 24,
	  .id_count = 1, .ids = { { 0, KIND_BUFFER } } },
	{ .opcode = OP_LOAD_PROGRAM, .head = 80, .makes = KIND_PROGRAM,
	  .id_count = 1, .ids = { { 0, KIND_CONTEXT } } },
	{ .opcode = OP_UNLOAD_PROGRAM, .head = 8, .ends = 1,
	  .id_count = 1, .ids = { { 0, KIND_PROGRAM } } },
	{ .opcode = OP_CREATE_QUEUE, .head = 16, .makes = KIND_QUEUE,
	  .id_count = 1, .ids = { { 0, KIND_CONTEXT } } },
	{ .opcode = OP_DESTROY_QUEUE, .head = 8, .ends = 1,
	  .id_count = 1, .ids = { { 0, KIND_QUEUE } } },
	{ .opcode = OP_SUBMIT, .head = 32, .bindings = 1, .makes = KIND_EVENT,
	  .id_count = 2, .ids = { { 0, KIND_QUEUE }, { 8, KIND_PROGRAM } } },
	{ .opcode = OP_POLL_EVENT, .head = 8,
	  .id_count = 1, .ids = { { 0, KIND_EVENT } } },
	{ .opcode = OP_CANCEL_EVENT, .head = 8,
	  .id_count = 1, .ids = { { 0, KIND_EVENT } } },
	{ .opcode = OP_DESTROY_EVENT, .head = 8, .ends = 1,
	  .id_count = 1, .ids = { { 0, KIND_EVENT } } },
	{ .opcode = OP_EXECUTE, .head = 32, .bindings = 1,
	  .id_count = 2, .ids = { { 0, KIND_QUEUE }, { 8, KIND_PROGRAM } } },
	{ .opcode = OP_WAIT_EVENT, .head = 16,
	  .id_count = 1, .ids = { { 0, KIND_EVENT } } },
	{ .opcode = OP_LOAD_PROGRAM_FROM_BUFFER, .head = 96, .makes = KIND_PROGRAM,
	  .id_count = 2, .ids = { { 0, KIND_CONTEXT }, { 80, KIND_BUFFER } } },
	{ .opcode = OP_QUERY, .head = 24,
	  .id_count = 1, .ids = { { 8, KIND_ANY } } },
	{ .opcode = OP_COPY_BUFFER, .head = 40,
	  .id_count = 2, .ids = { { 0, KIND_BUFFER }, { 16, KIND_BUFFER } } },
};

static const struct vaccel_rule *rule_of(u16 opcode)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rules); i++)
		if (rules[i].opcode == opcode)
			return &rules[i];
	return NULL;
}

/* Objects are ordered by kind, then id. */
static bool before(enum vaccel_kind kind, u64 id, const struct vaccel_object *object)
{
	return kind != object->kind ? kind < object->kind : id < object->id;
}

/* The first object at or behind a place in the order. Under file->lock. */
static struct vaccel_object *at_or_behind(struct vaccel_file *file, enum vaccel_kind kind, u64 id)
{
	struct rb_node *node = file->objects.rb_node;
	struct vaccel_object *best = NULL;

	while (node) {
		struct vaccel_object *object = rb_entry(node, struct vaccel_object, node);

		if (object->kind == kind && object->id == id)
			return object;
		if (before(kind, id, object)) {
			best = object;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

static struct vaccel_object *find(struct vaccel_file *file, enum vaccel_kind kind, u64 id)
{
	struct vaccel_object *object = at_or_behind(file, kind, id);

	return object && object->kind == kind && object->id == id ? object : NULL;
}

/*
 * vaccel_object_add - makes the file own an object; frees it if it does already
 *
 * Under file->lock.
 */
void vaccel_object_add(struct vaccel_file *file, struct vaccel_object *object)
{
	struct rb_node **link = &file->objects.rb_node, *parent = NULL;

	if (find(file, object->kind, object->id)) {
		kfree(object);
		return;
	}
	while (*link) {
		parent = *link;
		link = before(object->kind, object->id,
			      rb_entry(parent, struct vaccel_object, node)) ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&object->node, parent, link);
	rb_insert_color(&object->node, &file->objects);
}

/*
 * vaccel_object_end - makes the file own an object no more
 *
 * Under file->lock.
 */
void vaccel_object_end(struct vaccel_file *file, enum vaccel_kind kind, u64 id)
{
	struct vaccel_object *object = find(file, kind, id);

	if (object) {
		rb_erase(&object->node, &file->objects);
		kfree(object);
	}
}

static bool owns(struct vaccel_file *file, enum vaccel_kind kind, u64 id)
{
	unsigned long flags;
	bool found = false;

	spin_lock_irqsave(&file->lock, flags);
	if (kind != KIND_ANY)
		found = find(file, kind, id);
	else
		for (kind = KIND_CONTEXT; kind <= KIND_EVENT && !found; kind++)
			found = find(file, kind, id);
	spin_unlock_irqrestore(&file->lock, flags);
	return found;
}

/*
 * vaccel_object_next - id of the next object of a kind behind @after, or 0
 */
u64 vaccel_object_next(struct vaccel_file *file, enum vaccel_kind kind, u64 after)
{
	struct vaccel_object *object = NULL;
	unsigned long flags;
	u64 id;

	spin_lock_irqsave(&file->lock, flags);
	if (after != U64_MAX)
		object = at_or_behind(file, kind, after + 1);
	id = object && object->kind == kind ? object->id : 0;
	spin_unlock_irqrestore(&file->lock, flags);
	return id;
}

/*
 * vaccel_objects_free - forgets all objects of a file that nobody uses any more
 */
void vaccel_objects_free(struct vaccel_file *file)
{
	struct vaccel_object *object, *next;

	rbtree_postorder_for_each_entry_safe(object, next, &file->objects, node)
		kfree(object);
	file->objects = RB_ROOT;
}

static bool may_use(struct vaccel_request *req, u32 at, enum vaccel_kind kind)
{
	u64 id = get_unaligned_le64(vaccel_frame_at(req->request, WIRE_HEADER + at));

	return !id || owns(req->file, kind, id);
}

/*
 * vaccel_check - whether a request may go to the device
 *
 * Returns STATUS_OK, or the status with which the driver itself answers. Sets
 * req->rule and req->ends.
 */
u16 vaccel_check(struct vaccel_request *req)
{
	struct vaccel_frame *frame = req->request;
	u32 payload = frame->bytes - WIRE_HEADER;
	const struct vaccel_rule *rule;
	u32 i, at;

	rule = rule_of(get_unaligned_le16(vaccel_frame_at(frame, WIRE_CODE_AT)));
	if (!rule)
		return STATUS_UNSUPPORTED;
	if (payload < rule->head)
		return STATUS_INVALID_ARGUMENT;
	req->rule = rule;
	/* Ids lie in heads: the program can change what lies in a buffer at any time. */
	if ((rule->bindings && req->request_tail) || (rule->makes && req->response_tail))
		return STATUS_INVALID_ARGUMENT;
	for (i = 0; i < rule->id_count; i++)
		if (!may_use(req, rule->ids[i].at, rule->ids[i].kind))
			return STATUS_STALE_OBJECT;
	if (rule->bindings) {
		if ((payload - rule->head) % WIRE_BINDING)
			return STATUS_INVALID_ARGUMENT;
		for (at = rule->head; at < payload; at += WIRE_BINDING)
			if (!may_use(req, at, KIND_BUFFER))
				return STATUS_STALE_OBJECT;
	}
	if (rule->ends)
		req->ends = get_unaligned_le64(vaccel_frame_at(frame, WIRE_HEADER));
	return STATUS_OK;
}
