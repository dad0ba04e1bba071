"""The health of devices, as reported by drivers (pkg/kubelet/cm/dra/healthinfo.go)."""

import sys
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from dra_driverkit.files import write_atomically
from dra_shared.clock import Clock, SystemClock
from dra_shared.log import logger

DEFAULT_TIMEOUT = 30.0
HEALTH_FILE = "dra_health_state"
MESSAGE_LIMIT = 1024
MOST_DEVICES = 10_000

_log = logger(__name__)


class Health(StrEnum):
    """The states of a device, as in ``status.containerStatuses[].allocatedResourcesStatus``."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


_WIRE = {1: Health.HEALTHY, 2: Health.UNHEALTHY}


def health_from_wire(value: int) -> Health:
    """Return the state for a HealthStatus of the health protocol. Unknown values become Unknown."""
    return _WIRE.get(value, Health.UNKNOWN)


def truncate_message(message: str) -> str:
    """Truncate a driver's message to 1024 bytes."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_LIMIT:
        return message
    return encoded[: MESSAGE_LIMIT - 3].decode(errors="ignore") + "..."


class DeviceHealth(msgspec.Struct, frozen=True, rename="pascal"):
    """One device's health. The report is stale after ``health_check_timeout`` seconds."""

    pool_name: str = ""
    device_name: str = ""
    health: Health = Health.UNKNOWN
    last_updated: datetime | None = None
    health_check_timeout: float = 0.0
    message: str = ""


def device_health(pool: str, device: str, health: int, timeout_seconds: int, message: str) -> DeviceHealth:
    """Convert a device's health from the protocol. A timeout of zero or less means the default."""
    return DeviceHealth(
        pool_name=sys.intern(pool),
        device_name=sys.intern(device),
        health=health_from_wire(health),
        health_check_timeout=float(timeout_seconds) if timeout_seconds > 0 else DEFAULT_TIMEOUT,
        message=truncate_message(message),
    )


_States = dict[str, dict[str, DeviceHealth]]
_decoder = msgspec.json.Decoder(_States)


class HealthInfoCache:
    """The health of all devices by driver, kept in a file to survive restarts.

    The file is only written when something changes, so the times in it are those of the last changes. After a
    restart, its reports are valid once more for their timeout, in which their driver registers and reports
    again. At most :data:`MOST_DEVICES` of a driver's devices are stored, those of its newest report first, and
    none with a permanently stale report. All others are Unknown.
    """

    def __init__(self, path: Path | None, clock: Clock | None = None) -> None:
        self._path = str(path) if path is not None else None
        self._clock = clock or SystemClock()
        self._drivers: _States = {}
        if path is not None and path.exists():
            try:
                self._drivers = _decoder.decode(path.read_bytes())
            except (OSError, msgspec.DecodeError) as error:
                _log.warning(
                    "health file is unreadable, starting without it", path=str(path), error=str(error)
                )
            now = self._clock.now()
            for known in self._drivers.values():
                for key, device in known.items():
                    known[key] = msgspec.structs.replace(device, last_updated=now)

    def get(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """Return the device's health, or Unknown without a recent report."""
        known = self._drivers.get(driver, {}).get(f"{pool}/{device}")
        if known is None or self._is_stale(known):
            return DeviceHealth(pool_name=pool, device_name=device)
        return known

    def update(self, driver: str, devices: Iterable[DeviceHealth]) -> list[DeviceHealth]:
        """Store a driver's complete report. Return the devices whose health, message or timeout changed."""
        now = self._clock.now()
        known = self._drivers.setdefault(driver, {})
        changed: list[DeviceHealth] = []
        reported: set[str] = set()
        for device in devices:
            key = f"{device.pool_name}/{device.device_name}"
            reported.add(key)
            old = known.get(key)
            known[key] = new = msgspec.structs.replace(device, last_updated=now)
            if old is None or self._is_stale(old) or _facts(old) != _facts(new):
                changed.append(new)
        for key, old in list(known.items()):
            if key not in reported and self._is_stale(old):
                del known[key]
                if old.health is not Health.UNKNOWN:
                    gone = msgspec.structs.replace(old, health=Health.UNKNOWN, message="", last_updated=now)
                    changed.append(gone)
        changed += self._shorten(driver, reported, now)
        return changed

    def _shorten(self, driver: str, reported: set[str], now: datetime) -> list[DeviceHealth]:
        """Drop devices beyond the limit, starting with those that were not reported for longest."""
        known = self._drivers[driver]
        surplus = len(known) - MOST_DEVICES
        if surplus <= 0:
            return []
        unreported = sorted(
            (key for key in known if key not in reported), key=lambda key: known[key].last_updated or now
        )
        last = [key for key in reversed(known) if key in reported]
        dropped = [known.pop(key) for key in [*unreported, *last][:surplus]]
        _log.warning("driver reports the health of too many devices", driver=driver, forgotten=len(dropped))
        return [
            msgspec.structs.replace(old, health=Health.UNKNOWN, message="", last_updated=now)
            for old in dropped
            if old.health is not Health.UNKNOWN
        ]

    def clear(self, driver: str) -> bool:
        """Forget the reports of a driver. Return True if there were any."""
        return bool(self._drivers.pop(driver, None))

    def save(self) -> None:
        """Write the file. A failure is only logged, because the next report contains the health again."""
        if self._path is None:
            return
        try:
            write_atomically(Path(self._path), msgspec.json.encode(self._drivers), durable=False)
        except OSError as error:
            _log.warning("health file not written", path=self._path, error=str(error))

    def _is_stale(self, device: DeviceHealth) -> bool:
        if device.last_updated is None:
            return True
        age = (self._clock.now() - device.last_updated).total_seconds()
        return age > (device.health_check_timeout or DEFAULT_TIMEOUT)


def _facts(device: DeviceHealth) -> tuple[Health, str, float]:
    return device.health, device.message, device.health_check_timeout
