// SPDX-License-Identifier: GPL-2.0
/*
 * The device node of kernels with DRM accel: /dev/accel/accelN.
 *
 * The calls are those of accel_uapi.h, as on a misc device, and have numbers of
 * their own. Of the calls of DRM itself only DRM_IOCTL_VERSION is let through,
 * by which tools tell drivers apart: others were made for displays, and some
 * take it for granted that there is one (DRM_IOCTL_GET_MAGIC on an accel node
 * makes Linux 6.12 follow a null pointer).
 */

#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/version.h>

#include "virtio_accel.h"

static struct vaccel_file *our_file(struct file *filp)
{
	struct drm_file *file = filp->private_data;

	return file->driver_priv;
}

static long call(struct file *filp, unsigned int cmd, void __user *arg)
{
	return vaccel_file_ioctl(our_file(filp), cmd, arg, !(filp->f_flags & O_NONBLOCK));
}

static long node_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return cmd == DRM_IOCTL_VERSION ? drm_ioctl(filp, cmd, arg) :
					  call(filp, cmd, (void __user *)arg);
}

static __poll_t node_poll(struct file *filp, poll_table *table)
{
	return vaccel_file_poll(our_file(filp), filp, table);
}

static int node_mmap(struct file *filp, struct vm_area_struct *vma)
{
	return vaccel_buffer_mmap(our_file(filp), vma);
}

static const struct file_operations node_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
	.unlocked_ioctl = node_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = node_poll,
	.mmap = node_mmap,
#ifdef FOP_UNSIGNED_OFFSET
	.fop_flags = FOP_UNSIGNED_OFFSET,	/* DRM insists */
#endif
};

static int open(struct drm_device *drm, struct drm_file *file)
{
	file->driver_priv = vaccel_file_open(drm->dev_private);
	return file->driver_priv ? 0 : -ENOMEM;
}

static void close(struct drm_device *drm, struct drm_file *file)
{
	vaccel_file_close(file->driver_priv);
}

static void release(struct drm_device *drm)
{
	vaccel_device_put(drm->dev_private);
}

static const struct drm_driver drm_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL,
	.open = open,
	.postclose = close,
	.release = release,
	.fops = &node_fops,
	.name = KBUILD_MODNAME,
	.desc = "paravirtual accelerator",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	.date = "20260101",
#endif
	.major = VACCEL_VERSION,
};

/*
 * vaccel_node_add - lets programs in
 */
int vaccel_node_add(struct vaccel_device *dev)
{
	int ret;

	dev->drm = drm_dev_alloc(&drm_driver, &dev->vdev->dev);
	if (IS_ERR(dev->drm))
		return PTR_ERR(dev->drm);
	kref_get(&dev->ref);
	dev->drm->dev_private = dev;
	ret = drm_dev_register(dev->drm, 0);
	if (ret)
		drm_dev_put(dev->drm);
	return ret;
}

/*
 * vaccel_node_remove - no further opens; open files stay
 */
void vaccel_node_remove(struct vaccel_device *dev)
{
	drm_dev_unregister(dev->drm);
	drm_dev_put(dev->drm);
}
