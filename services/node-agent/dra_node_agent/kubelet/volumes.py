"""The volumes of pods below the kubelet's root, and containers' mounts of them (pkg/kubelet/volumemanager)."""

import asyncio
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from dra_driverkit.files import directories
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.api.volume import DownwardAPIVolumeFile, KeyToPath, Volume
from dra_shared.log import logger

from dra_node_agent.kubelet.environment import ConfigError, Sources, expand, field_value, resource_value
from dra_node_agent.runtime.base import Mount

_VOLUMES = "volumes"
_MOST_ERRORS = 3
_FILES_LIMIT = 4 << 20
# In bytes: smaller files are written without a thread, which would take longer, because nothing waits for the
# disk.
_MOST_AT_ONCE = 1 << 16
# Tokens are renewed when a fifth of their time is left, and at least once a day (pkg/kubelet/token).
_TOKEN_SECONDS, _LONGEST_TOKEN = 3600, 86400.0

_log = logger(__name__)


class MountError(Exception):
    """A volume cannot be set up. The pod waits (event FailedMount)."""


class VolumeSources(Sources, Protocol):
    """The source of volumes' files."""

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> bytes:
        """Return a token of the pod's service account."""
        ...


class VolumeManager:
    """The volumes of one node's pods, below ``directory/<pod uid>/volumes``."""

    def __init__(self, directory: Path, sources: VolumeSources, node_name: str, host_ip: str) -> None:
        self._directory = directory
        self._sources = sources
        self._node_name = node_name
        self._host_ip = host_ip

    def folder(self, pod_uid: str) -> Path:
        """Return the directory of a pod's files."""
        return self._directory / pod_uid

    async def set_up(self, pod: Pod, pod_ip: str) -> dict[str, Path]:
        """Create the pod's volumes. Return the host's path of each, by name.

        Raises:
            MountError: a volume's source is missing or malformed.
        """
        paths: dict[str, Path] = {}
        for volume in pod.spec.volumes:
            if volume.host_path is not None:
                paths[volume.name] = Path(volume.host_path.path)
                continue
            folder = self.folder(pod.metadata.uid) / _VOLUMES / volume.name
            try:
                files = await self._files(pod, volume, pod_ip)
            except ConfigError as error:
                raise MountError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
            if sum(map(len, files.values())) > _MOST_AT_ONCE:
                await asyncio.to_thread(_write, folder, files)
            else:
                _write(folder, files)
            paths[volume.name] = folder
        return paths

    def renew_after(self, pod: Pod) -> float | None:
        """Return the seconds after which a token in the pod's volumes has to be renewed, or None without tokens."""
        return min(
            (
                min((part.service_account_token.expiration_seconds or _TOKEN_SECONDS) * 0.8, _LONGEST_TOKEN)
                for volume in pod.spec.volumes
                if volume.projected is not None
                for part in volume.projected.sources
                if part.service_account_token is not None
            ),
            default=None,
        )

    def pods(self) -> Collection[str]:
        """Return the UIDs of pods that have a directory.

        With ``--root-dir``, the directory may be that of another kubelet. Pod directories that contain more
        than volumes are left out: this kubelet did not create them and must not remove them.
        """
        return [uid for uid in directories(self._directory) if _is_ours(self.folder(uid))]

    async def tear_down(self, pod_uid: str) -> None:
        """Remove the pod's volumes. Idempotent.

        What cannot be removed is logged and does not delay the pod: an agent without root cannot remove
        files written by a container of an engine.
        """
        folder = self.folder(pod_uid)
        if folder.exists():
            await asyncio.to_thread(_remove, folder)

    async def _files(self, pod: Pod, volume: Volume, pod_ip: str) -> dict[str, bytes]:
        if volume.config_map is not None:
            source = volume.config_map
            return await self._config_map(pod, source.name, source.items, bool(source.optional))
        if volume.secret is not None:
            secret = volume.secret
            return await self._secret(pod, secret.secret_name, secret.items, bool(secret.optional))
        if volume.downward_api is not None:
            return self._downward(pod, volume.downward_api.items, pod_ip)
        files: dict[str, bytes] = {}
        if volume.projected is not None:
            for part in volume.projected.sources:
                if part.config_map is not None:
                    config = part.config_map
                    files |= await self._config_map(pod, config.name, config.items, bool(config.optional))
                elif part.secret is not None:
                    projected = part.secret
                    files |= await self._secret(
                        pod, projected.name, projected.items, bool(projected.optional)
                    )
                elif part.downward_api is not None:
                    files |= self._downward(pod, part.downward_api.items, pod_ip)
                elif part.service_account_token is not None:
                    token = part.service_account_token
                    files[token.path] = await self._sources.token(
                        pod, token.audience, token.expiration_seconds
                    )
        return files

    async def _config_map(
        self, pod: Pod, name: str, items: Sequence[KeyToPath], optional: bool
    ) -> dict[str, bytes]:
        data = await self._sources.config_map(pod.metadata.namespace, name)
        return _select_files("configmap", name, data, items, optional)

    async def _secret(
        self, pod: Pod, name: str, items: Sequence[KeyToPath], optional: bool
    ) -> dict[str, bytes]:
        data = await self._sources.secret(pod.metadata.namespace, name)
        return _select_files("secret", name, data, items, optional)

    def _downward(self, pod: Pod, items: Iterable[DownwardAPIVolumeFile], pod_ip: str) -> dict[str, bytes]:
        files = {}
        for item in items:
            if item.field_ref is not None:
                text = field_value(pod, item.field_ref, pod_ip, self._host_ip, self._node_name)
            elif item.resource_field_ref is not None:
                text = resource_value(pod, pod.spec.containers[0], item.resource_field_ref)
            else:
                continue
            files[item.path] = text.encode()
        return files


def container_mounts(
    pod: Pod, container: Container, volumes: Mapping[str, Path], env: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Return the mounts of a container. As upstream, files written by the kubelet itself are read-only.

    Raises:
        ConfigError: it mounts a volume that the pod does not have.
    """
    ours = {volume.name for volume in pod.spec.volumes if _is_written_here(volume)}
    mounts = []
    for mount in container.volume_mounts:
        path = volumes.get(mount.name)
        if path is None:
            raise ConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        inner = mount.sub_path or expand(mount.sub_path_expr, env)
        if inner:
            path = path / _safe(inner)
        mounts.append(Mount(mount.mount_path, str(path), bool(mount.read_only) or mount.name in ours))
    return tuple(mounts)


def _is_written_here(volume: Volume) -> bool:
    sources = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(source is not None for source in sources)


def _select_files(
    kind: str, name: str, data: Mapping[str, bytes] | None, items: Sequence[KeyToPath], optional: bool
) -> dict[str, bytes]:
    if data is None:
        if optional:
            return {}
        raise ConfigError(f'{kind} "{name}" not found')
    if not items:
        return dict(data)
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = data[item.key]
        elif not optional:
            raise ConfigError(f"{kind} references non-existent {kind} key: {item.key}")
    return files


def _safe(path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ConfigError(f"path {path!r} must be relative and not contain '..'")
    return relative


def _is_ours(folder: Path) -> bool:
    try:
        return os.listdir(folder) in ([], [_VOLUMES])
    except OSError:
        return False


def _remove(folder: Path) -> None:
    # Like upstream's RemoveAllOneFilesystem: do not remove the contents of other file systems that are mounted
    # there.
    if mounted := _mount_below(folder):
        _log.warning("pod directory kept, something is mounted", path=mounted)
        return
    errors: list[str] = []
    shutil.rmtree(folder, onerror=lambda _call, _path, info: errors.append(str(info[1])))
    if errors:
        _log.warning("pod directory not removed completely", path=str(folder), errors=errors[:_MOST_ERRORS])


def _mount_below(folder: Path) -> str | None:
    device = folder.lstat().st_dev
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.lstat(path).st_dev != device:
                return path
    return None


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    paths = {name: folder / _safe(name) for name in files}
    for parent in {folder, *(path.parent for path in paths.values())}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = paths[name]
        # A concurrent reader gets either the old or the new content.
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(content[:_FILES_LIMIT])
        temporary.replace(path)
