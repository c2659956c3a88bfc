#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# First program of a guest that is a process of this machine: does what /sbin/guest-init does for the others. SHARE and
# KERNEL are directories of this machine.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/lower /mnt/up/data /mnt/up/work /mnt/root
mount -t hostfs -o hostfs=/guestroot,ro root /mnt/lower
mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/up/data,workdir=/mnt/up/work overlay /mnt/root
mount -t devtmpfs dev /mnt/root/dev
mount -t proc proc /mnt/root/proc
mount -t sysfs sys /mnt/root/sys
mount -t hostfs -o "hostfs=$SHARE" share /mnt/root/share
mount -t hostfs -o "hostfs=$KERNEL,ro" kernel /mnt/root/kernel
ip link set vec0 name eth0
exec chroot /mnt/root /share/init
