"""ApiVersions: which APIs and versions a broker speaks. The first request of every connection.

A client sends the newest version that it knows before it knows ours. One that we lack is
answered in version 0 with UNSUPPORTED_VERSION and our range of this API (KIP-511).

- Versions 0 to 2 differ in throttling only.
- 3 is flexible, names the client's software, and lists features.
- 4 may list a feature whose lowest version is 0; before, clients choked on it (KAFKA-17011).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    # Versions below 4 leave a feature out whose lowest version is 0.
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    # Finalized features mean something only with an epoch of 0 or more.
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
