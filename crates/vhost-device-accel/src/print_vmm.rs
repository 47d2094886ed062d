//! The lines that attach a socket to a VM.

use std::path::Path;

use crate::args::{Settings, Vmm};
use crate::error::Error;

/// Entries of each ring in the lines: plenty for commands in flight, and far below the daemon's maximum.
const RING_SIZE: u16 = 256;

/// One block of VMM options for each socket, for the user to complete with the rest of the VM.
///
/// # Errors
/// There is no socket, or the VMM cannot present the virtio id.
pub fn attach_lines(vmm: Vmm, settings: &Settings) -> Result<String, Error> {
    if settings.socket_paths.is_empty() {
        return Err(Error::NoSocket);
    }
    let id = settings.virtio_id;
    check_id(vmm, id)?;
    let line = |socket: &Path| match vmm {
        Vmm::Qemu => qemu(socket, id, settings.queues),
        Vmm::CloudHypervisor => cloud_hypervisor(socket, id, settings.queues),
        Vmm::Crosvm => crosvm(socket),
    };
    Ok(settings.socket_paths.iter().map(|socket| line(socket)).collect::<Vec<_>>().join("\n"))
}

fn check_id(vmm: Vmm, id: u8) -> Result<(), Error> {
    match (vmm, id) {
        (Vmm::Qemu, 1..=13 | 16..=41 | 45) | (Vmm::Crosvm, 31) => Ok(()),
        (Vmm::CloudHypervisor, 1..) => Ok(()),
        (Vmm::Qemu, _) => {
            Err(Error::VirtioId { vmm: "QEMU", id, mend: "choose one of 1 to 13, 16 to 41 and 45" })
        }
        (Vmm::Crosvm, _) => Err(Error::VirtioId {
            vmm: "crosvm",
            id,
            mend: "only 31 is possible, its name there is video-decoder",
        }),
        (Vmm::CloudHypervisor, 0) => {
            Err(Error::VirtioId { vmm: "cloud-hypervisor", id, mend: "choose 1 or more" })
        }
    }
}

fn qemu(socket: &Path, id: u8, queues: u16) -> String {
    format!(
        "# QEMU 10.2 or later; the memory must be as large as the VM's (-m)\n\
         -machine memory-backend=mem -object memory-backend-memfd,id=mem,size=4G,share=on \\\n\
         -chardev socket,id=accel0,path={} \\\n\
         -device vhost-user-test-device-pci,chardev=accel0,virtio-id={id},num_vqs={queues},vq_size={RING_SIZE},\
         config_size={}\n",
        socket.display().to_string().replace(',', ",,"),
        accel_proto::CONFIG_BYTES,
    )
}

fn cloud_hypervisor(socket: &Path, id: u8, queues: u16) -> String {
    let sizes = vec![RING_SIZE.to_string(); queues.into()].join(",");
    format!(
        "# cloud-hypervisor 52; from 53 on write device_type= instead of virtio_id=\n\
         --memory size=4G,shared=on \\\n\
         --generic-vhost-user socket={},virtio_id={id},queue_sizes=[{sizes}]\n",
        socket.display()
    )
}

fn crosvm(socket: &Path) -> String {
    format!(
        "# crosvm asks the daemon for the number of queues\n\
         --vhost-user video-decoder,socket={},max-queue-size={RING_SIZE}\n",
        socket.display()
    )
}
