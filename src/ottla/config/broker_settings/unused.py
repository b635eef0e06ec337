"""Settings that Apache Kafka knows and Ottla does not need, or not yet.

A `server.properties` written for Kafka should start Ottla wherever that is harmless: these are
accepted, their types are checked, and the broker says once that they have no effect. Names with
a star may change while a Kafka broker runs, those with a plus on a single broker only. From
Kafka 4.3, and, for ZooKeeper's time, 3.9.
"""

from __future__ import annotations

from functools import cache

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    Change,
    Setting,
)

_CHANGES: dict[str, Change] = {"": READ_ONLY, "*": CLUSTER_WIDE, "+": PER_BROKER}

_NAMES = {
    CLASS: """
        alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
        principal.builder.class+ sasl.client.callback.handler.class
        sasl.login.callback.handler.class sasl.login.class sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class sasl.server.callback.handler.class
        ssl.engine.factory.class+
    """,
    INT: """
        alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds background.threads*
        broker.heartbeat.interval.ms broker.session.timeout.ms controller.quorum.append.linger.ms
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
        controller.quorum.retry.backoff.ms controller.quota.window.num
        controller.quota.window.size.seconds delete.records.purgatory.purge.interval.requests
        fetch.purgatory.purge.interval.requests group.coordinator.background.threads
        group.coordinator.threads group.share.assignment.interval.ms*
        group.share.delivery.count.limit group.share.heartbeat.interval.ms
        group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
        group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
        group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
        group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms
        group.share.session.timeout.ms group.streams.assignment.interval.ms*
        group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
        group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
        group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
        initial.broker.registration.timeout.ms internal.metadata.log.segment.bytes
        internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
        metadata.log.segment.bytes metadata.max.idle.interval.ms metrics.num.samples num.io.threads*
        num.network.threads* num.replica.alter.log.dirs.threads password.encoder.iterations
        password.encoder.key.length producer.purgatory.purge.interval.requests
        remote.fetch.max.wait.ms* remote.log.manager.copier.thread.pool.size*
        remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
        remote.log.manager.expiration.thread.pool.size* remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds
        remote.log.manager.follower.thread.pool.size* remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.reader.max.pending.tasks
        remote.log.reader.threads* reserved.broker.max.id sasl.login.connect.timeout.ms
        sasl.login.read.timeout.ms sasl.oauthbearer.assertion.claim.exp.seconds
        sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.clock.skew.seconds
        sasl.server.max.receive.size share.coordinator.append.linger.ms
        share.coordinator.cached.buffer.max.bytes*
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.num.partitions
        share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.segment.bytes
        share.coordinator.threads share.coordinator.write.timeout.ms
        share.fetch.purgatory.purge.interval.requests telemetry.max.bytes
    """,
    STRING: """
        authorizer.class.name control.plane.listener.name group.share.persister.class.name
        inter.broker.protocol.version log.message.format.version metadata.log.dir
        metrics.recording.level password.encoder.cipher.algorithm
        password.encoder.keyfactory.algorithm remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
        sasl.kerberos.kinit.cmd+ sasl.kerberos.service.name+ sasl.mechanism.controller.protocol
        sasl.mechanism.inter.broker.protocol+
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub
        sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
        sasl.oauthbearer.token.endpoint.url security.providers ssl.client.auth+
        ssl.endpoint.identification.algorithm+ ssl.keymanager.algorithm+ ssl.keystore.location+
        ssl.keystore.type+ ssl.principal.mapping.rules ssl.protocol+ ssl.provider+
        ssl.secure.random.implementation+ ssl.trustmanager.algorithm+ ssl.truststore.location+
        ssl.truststore.type+ zookeeper.clientCnxnSocket
        zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
        zookeeper.ssl.keystore.type zookeeper.ssl.protocol zookeeper.ssl.truststore.location
        zookeeper.ssl.truststore.type
    """,
    LIST: """
        config.providers* controller.quorum.bootstrap.servers controller.quorum.voters
        cordoned.log.dirs+ early.start.listeners group.share.assignors kafka.metrics.reporters
        metric.reporters* process.roles sasl.enabled.mechanisms+
        sasl.kerberos.principal.to.local.rules+ sasl.oauthbearer.expected.audience
        ssl.cipher.suites+ ssl.enabled.protocols+ zookeeper.ssl.cipher.suites
        zookeeper.ssl.enabled.protocols
    """,
    LONG: """
        connections.max.reauth.ms controller.performance.always.log.threshold.ms
        controller.performance.sample.period.ms delegation.token.expiry.check.interval.ms
        delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
        internal.metadata.delete.delay.millis log.dir.failure.timeout.ms
        log.message.timestamp.difference.max.ms metadata.log.max.record.bytes.between.snapshots
        metadata.log.max.snapshot.interval.ms metadata.log.segment.ms metadata.max.retention.bytes
        metadata.max.retention.ms metrics.sample.window.ms remote.list.offsets.request.timeout.ms*
        remote.log.index.file.cache.total.size.bytes* remote.log.index.file.cache.ttl.ms
        remote.log.manager.copy.max.bytes.per.second* remote.log.manager.fetch.max.bytes.per.second*
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms sasl.kerberos.min.time.before.relogin+
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms server.max.startup.time.ms
        unclean.leader.election.interval.ms
    """,
    BOOLEAN: """
        auto.include.jmx.reporter broker.id.generation.enable controller.quorum.auto.join.enable
        eligible.leader.replicas.enable follower.fetch.last.tiered.offset.enable*
        group.coordinator.new.enable log.message.downconversion.enable
        remote.log.storage.system.enable sasl.oauthbearer.assertion.claim.jti.include
        ssl.allow.dn.changes ssl.allow.san.changes unstable.api.versions.enable
        unstable.feature.versions.enable zookeeper.metadata.migration.enable
        zookeeper.set.acl zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
        zookeeper.ssl.ocsp.enable
    """,
    PASSWORD: """
        delegation.token.secret.key password.encoder.old.secret password.encoder.secret
        sasl.jaas.config+ sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.client.credentials.client.secret ssl.key.password+
        ssl.keystore.certificate.chain+ ssl.keystore.key+ ssl.keystore.password+
        ssl.truststore.certificates+ ssl.truststore.password+ zookeeper.ssl.keystore.password
        zookeeper.ssl.truststore.password
    """,
    DOUBLE: """
        remote.log.manager.task.retry.jitter sasl.kerberos.ticket.renew.jitter+
        sasl.kerberos.ticket.renew.window.factor+ sasl.login.refresh.window.factor+
        sasl.login.refresh.window.jitter+
    """,
    SHORT: """
        offsets.commit.required.acks sasl.login.refresh.buffer.seconds+
        sasl.login.refresh.min.period.seconds+ share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.replication.factor
    """,
}


@cache
def unused_settings() -> dict[str, Setting]:
    """By name. Built when first asked for: most brokers never do."""
    found: dict[str, Setting] = {}
    for type_, names in _NAMES.items():
        for marked in names.split():
            name = marked.rstrip("*+")
            it = Setting(
                type_,
                None,
                None,
                doc="Known from Apache Kafka; has no effect in Ottla.",
                importance="low",
                change=_CHANGES[marked[len(name) :]],
                synonyms=(),
                internal=False,
            )
            it.name = name
            found[it.name] = it
    return found
