// SPDX-License-Identifier: GPL-2.0
/* virtio_accel - a paravirtual neural-network accelerator. */

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/virtio_config.h>

#include "virtio_accel.h"

/* No id is registered for this device: the machine monitor and we agree on one. */
#define DEFAULT_VIRTIO_ID	31

static unsigned int virtio_id = DEFAULT_VIRTIO_ID;
module_param(virtio_id, uint, 0444);
MODULE_PARM_DESC(virtio_id, "virtio device id of the accelerator (default 31)");

static void device_free(struct kref *ref)
{
	kfree(container_of(ref, struct vaccel_device, ref));
}

void vaccel_device_put(struct vaccel_device *dev)
{
	kref_put(&dev->ref, device_free);
}

/* Reads the configuration space, and the extension block if there is one. */
static int read_config(struct vaccel_device *dev)
{
	u8 *config = dev->config;
	u16 max_chain;

	virtio_cread_bytes(dev->vdev, 0, config, WIRE_CONFIG_PREFIX);
	max_chain = get_unaligned_le16(config + WIRE_MAX_CHAIN_AT);
	dev->max_request = get_unaligned_le32(config + WIRE_MAX_REQUEST_AT);
	dev->max_response = get_unaligned_le32(config + WIRE_MAX_RESPONSE_AT);
	dev->max_pieces = max_chain;
	if (get_unaligned_le16(config + WIRE_MAJOR_AT) != 1 || max_chain < 2 ||
	    dev->max_request < WIRE_MIN_REQUEST || dev->max_request > WIRE_MAX_FRAME ||
	    dev->max_response < WIRE_MIN_RESPONSE || dev->max_response > WIRE_MAX_FRAME) {
		dev_err(&dev->vdev->dev, "no accelerator of protocol 1: configuration %*ph\n",
			WIRE_CONFIG_PREFIX, config);
		return -ENODEV;
	}
	virtio_cread_bytes(dev->vdev, WIRE_CONFIG_PREFIX, config + WIRE_CONFIG_PREFIX,
			   VACCEL_CONFIG_BYTES - WIRE_CONFIG_PREFIX);
	if (get_unaligned_le32(config + WIRE_MAGIC_AT) != WIRE_MAGIC ||
	    get_unaligned_le32(config + WIRE_LENGTH_AT) < WIRE_BLOCK_BYTES)
		memset(config + WIRE_CONFIG_PREFIX, 0, VACCEL_CONFIG_BYTES - WIRE_CONFIG_PREFIX);
	dev->extensions = get_unaligned_le64(config + WIRE_EXTENSIONS_AT);
	/* Two of the largest requests at least. */
	dev->max_file_bytes = max(64u << 20, 2 * (dev->max_request + dev->max_response));
	return 0;
}

static int probe(struct virtio_device *vdev)
{
	struct vaccel_device *dev;
	int ret;

	if (!virtio_has_feature(vdev, VIRTIO_F_VERSION_1)) {
		dev_err(&vdev->dev, "the device is of virtio before 1.0\n");
		return -ENODEV;
	}
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	kref_init(&dev->ref);
	dev->vdev = vdev;
	init_rwsem(&dev->alive);
	mutex_init(&dev->files_lock);
	INIT_LIST_HEAD(&dev->files);
	vdev->priv = dev;

	ret = read_config(dev);
	if (ret)
		goto put;
	ret = vaccel_queues_init(dev);
	if (ret) {
		dev_err(&vdev->dev, "no command queue (%d)\n", ret);
		goto put;
	}
	virtio_device_ready(vdev);
	ret = vaccel_node_add(dev);
	if (ret)
		goto stop;
	dev_info(&vdev->dev, "accelerator with %u command queue(s), extensions %#llx\n",
		 dev->queue_count, dev->extensions);
	return 0;

stop:
	vaccel_queues_stop(dev);
put:
	vaccel_device_put(dev);
	return ret;
}

static void remove(struct virtio_device *vdev)
{
	struct vaccel_device *dev = vdev->priv;

	vaccel_node_remove(dev);
	vaccel_queues_stop(dev);
	vaccel_device_put(dev);
}

static struct virtio_device_id ids[] = {
	{ DEFAULT_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{ 0 },
};
MODULE_DEVICE_TABLE(virtio, ids);

static struct virtio_driver driver = {
	.driver.name = KBUILD_MODNAME,
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

static int __init start(void)
{
	int ret;

	if (!virtio_id)
		return -EINVAL;
	ids[0].device = virtio_id;
	vaccel_reaper = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	if (!vaccel_reaper)
		return -ENOMEM;
	ret = register_virtio_driver(&driver);
	if (ret)
		destroy_workqueue(vaccel_reaper);
	return ret;
}
module_init(start);

static void __exit stop(void)
{
	unregister_virtio_driver(&driver);
	destroy_workqueue(vaccel_reaper);
}
module_exit(stop);

MODULE_DESCRIPTION("Driver for the paravirtual accelerator of vhost-device-accel");
MODULE_VERSION("1.1.0");
MODULE_LICENSE("GPL");
