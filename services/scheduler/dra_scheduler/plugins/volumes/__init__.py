"""The plugins for volumes: VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""
