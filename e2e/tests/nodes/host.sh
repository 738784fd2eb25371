# A host: process 1 of these namespaces, with private directories where an installation writes. The command is the first argument.
for directory in /run /var/lib /etc; do mount -t tmpfs none "$directory"; done
mkdir -p /run/systemd/system /etc/systemd/system
echo 4c1f0f6f3b5d4d0e9f5a7b6c8d9e0f11 > /etc/machine-id
for _ in 1 2; do
  # A pod has none of these directories until it enters the host.
  unshare --mount sh -ec 'umount /run /var/lib /etc; exec "$0" node-agent install --enter-host' "$0"
done
cat /run/asked; echo
ls /etc/systemd/system
exec /var/lib/muster/node/bin/muster node-agent status
