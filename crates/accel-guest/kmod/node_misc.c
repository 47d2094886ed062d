// SPDX-License-Identifier: GPL-2.0
/* The device node of kernels without DRM accel: a misc device /dev/vaccelN. */

#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "virtio_accel.h"

static DEFINE_IDA(numbers);

static int node_open(struct inode *inode, struct file *filp)
{
	struct miscdevice *misc = filp->private_data;

	filp->private_data = vaccel_file_open(container_of(misc, struct vaccel_device, misc));
	return filp->private_data ? 0 : -ENOMEM;
}

static int node_release(struct inode *inode, struct file *filp)
{
	vaccel_file_close(filp->private_data);
	return 0;
}

static long node_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return vaccel_file_ioctl(filp->private_data, cmd, (void __user *)arg,
				 !(filp->f_flags & O_NONBLOCK));
}

static __poll_t node_poll(struct file *filp, poll_table *table)
{
	return vaccel_file_poll(filp->private_data, filp, table);
}

static int node_mmap(struct file *filp, struct vm_area_struct *vma)
{
	return vaccel_buffer_mmap(filp->private_data, vma);
}

static const struct file_operations node_fops = {
	.owner = THIS_MODULE,
	.open = node_open,
	.release = node_release,
	.unlocked_ioctl = node_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = node_poll,
	.mmap = node_mmap,
};

/*
 * vaccel_node_add - lets programs in
 */
int vaccel_node_add(struct vaccel_device *dev)
{
	int ret;

	dev->number = ida_alloc(&numbers, GFP_KERNEL);
	if (dev->number < 0)
		return dev->number;
	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = kasprintf(GFP_KERNEL, "vaccel%d", dev->number);
	dev->misc.fops = &node_fops;
	dev->misc.parent = &dev->vdev->dev;
	dev->misc.mode = 0660;
	ret = dev->misc.name ? misc_register(&dev->misc) : -ENOMEM;
	if (ret) {
		kfree(dev->misc.name);
		ida_free(&numbers, dev->number);
	}
	return ret;
}

/*
 * vaccel_node_remove - no further opens; open files stay
 */
void vaccel_node_remove(struct vaccel_device *dev)
{
	misc_deregister(&dev->misc);
	kfree(dev->misc.name);
	ida_free(&numbers, dev->number);
}
