//! Which devices a process may open: the modes of the nodes in /dev stand for a device cgroup
//! here. CUDA does not count a device that is closed, so it is never given away.

use getgpu_tests::OTHER;
use harness::Sandbox;
use harness::skip::{self, Need};

/// Two GPUs, each with a MIG device in its GPU instance 7.
const TWO: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 2\nmig = true\n\
    [[gpu.device]]\nprofile = '1g.5gb'\ngi = 7\n";

/// All nodes, open as nvidia-modprobe makes them: 66 and 67 are the capabilities of the first
/// device, 201 and 202 those of the second one.
const OPEN: &str = "mount -t tmpfs -o mode=755 none /dev && mount -t tmpfs -o mode=755 none /proc/driver && \
    mkdir /dev/nvidia-caps && cd /dev && mknod -m 666 null c 1 3 && mknod -m 666 nvidiactl c 195 255 && \
    for n in 0 1; do mknod -m 666 nvidia$n c 195 $n; done && cd nvidia-caps && \
    for n in 1 2 9 66 67 201 202; do mknod -m 444 nvidia-cap$n c 234 $n; done";

#[test]
fn a_device_whose_node_is_closed_is_not_given() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let driver_says_9 = "mkdir -p /proc/driver/nvidia/capabilities/gpu1/mig/gi7 && \
        echo DeviceFileMinor: 9 >/proc/driver/nvidia/capabilities/gpu1/mig/gi7/access";
    #[rustfmt::skip]
    let cases = [
        ("all are open", "true".to_owned(), 2),
        ("the GPU's", "chmod 0 ../nvidia1".to_owned(), 1),
        ("the GPU's, for writing", "chmod 444 ../nvidia1".to_owned(), 1),
        ("the GPU has none", "rm ../nvidia1".to_owned(), 1),
        ("the GPU instance's", "chmod 0 nvidia-cap201".to_owned(), 1),
        ("the compute instance's", "chmod 0 nvidia-cap202".to_owned(), 1),
        ("the instance's is not made yet", "rm nvidia-cap201 nvidia-cap202".to_owned(), 2),
        ("the one that the driver names", format!("{driver_says_9} && chmod 0 nvidia-cap9"), 1),
        ("not the one that the driver names", format!("{driver_says_9} && chmod 0 nvidia-cap201"), 2),
        ("no capabilities in /dev", "cd .. && rm -r nvidia-caps".to_owned(), 2),
        ("WSL: no GPU in /dev", "chmod 0 nvidia-cap201 && rm ../nvidia0 ../nvidia1".to_owned(), 2),
    ];
    let sandbox = Sandbox::new(TWO);
    let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    for (name, prepare, free) in cases {
        let script = format!("{OPEN} && {prepare} && exec {user} getgpu --count-free");
        let outcome = sandbox.apart(&script).run();
        assert_eq!(outcome.exits(0).line(), free.to_string(), "{name}");
    }
}
