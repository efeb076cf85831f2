// The client scenario of tests/kit/scenario.py with kafkajs: BOOTSTRAP TOPIC BASE_TIMESTAMP_MS.
// kafkajs reads through groups only. Prints a line per step passed; a difference ends it with code 1.
'use strict'

const assert = require('node:assert/strict')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const Lz4Codec = require('kafkajs-lz4')
const SnappyCodec = require('kafkajs-snappy')
const { ZstdCodec } = require('zstd-codec')

const [bootstrap, topic, base] = process.argv.slice(2)
const baseMs = Number(base)
const CODECS = ['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD']
const RECORDS_PER_RUN = 20
const RECORD_COUNT = 2 * CODECS.length * RECORDS_PER_RUN
const FROM_OFFSET = 57
const FROM_TIME_INDEX = 142

// kafkajs's own zstd package wraps a native library that no longer builds; this one is WebAssembly.
const zstdCodec = () => ({
  compress: (encoder) => withZstd((zstd) => Buffer.from(zstd.compress(encoder.buffer))),
  decompress: (buffer) => withZstd((zstd) => Buffer.from(zstd.decompress(buffer))),
})
const withZstd = (use) => new Promise((resolve, reject) => {
  ZstdCodec.run((zstd) => {
    try { resolve(use(new zstd.Simple())) } catch (error) { reject(error) }
  })
})

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = new Lz4Codec().codec
CompressionCodecs[CompressionTypes.ZSTD] = zstdCodec

const kafka = new Kafka({ clientId: 'scenario', brokers: [bootstrap], logLevel: logLevel.ERROR })
const passed = (step) => console.log(`passed: ${step}`)
const pause = () => new Promise((resolve) => setTimeout(resolve, 20))
const key = (index) => (index % 10 === 9 ? null : Buffer.from(`key-${index}`))
const value = (index) => (index % 10 === 8
  ? null
  : Buffer.from(Array.from({ length: 300 + index }, (_, at) => (index * 7 + at) % 256)))

function record(index) {
  return {
    partition: 0,
    key: key(index),
    value: value(index),
    headers: { index: Buffer.from(String(index)), empty: Buffer.alloc(0) },
    timestamp: String(baseMs + index * 1000),
  }
}

async function produceAll() {
  let next = 0
  for (const idempotent of [false, true]) {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
    await producer.connect()
    for (const codec of CODECS) {
      const messages = Array.from({ length: RECORDS_PER_RUN }, (_, at) => record(next + at))
      const compression = CompressionTypes[codec]
      const acks = idempotent ? -1 : 1
      const [answer] = await producer.send({ topic, compression, acks, messages })
      assert.equal(Number(answer.baseOffset), next)
      next += RECORDS_PER_RUN
    }
    await producer.disconnect()
  }
  passed('produce')
}

async function consumeFrom(first) {
  const consumer = kafka.consumer({ groupId: `${topic}-from-${first}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let index = first
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ partition, message }) => {
      try {
        if (index < RECORD_COUNT) check(partition, message, index++)
        if (index === RECORD_COUNT) resolve()
      } catch (difference) {
        reject(difference)
      }
    }
    consumer.run({ eachMessage }).catch(reject)
    consumer.seek({ topic, partition: 0, offset: String(first) })
  })
  await consumer.disconnect()
}

function check(partition, message, index) {
  assert.equal(partition, 0)
  assert.equal(Number(message.offset), index)
  assert.deepEqual(message.key, key(index))
  assert.deepEqual(message.value, value(index))
  assert.equal(Number(message.timestamp), baseMs + index * 1000)
  assert.deepEqual(message.headers, record(index).headers)
}

async function consumeAll(admin) {
  await consumeFrom(0)
  passed('consume from the start')
  await consumeFrom(FROM_OFFSET)
  passed('consume from an offset')
  const timeMs = baseMs + FROM_TIME_INDEX * 1000 - 1
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, timeMs)
  assert.equal(Number(found.find((each) => each.partition === 0).offset), FROM_TIME_INDEX)
  await consumeFrom(FROM_TIME_INDEX)
  passed('consume from a time')
}

async function alterAndDescribe(admin) {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const configEntries = [{ name: 'retention.ms', value: '172800000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] })
  const retention = async () => {
    const asked = { ...resource, configNames: ['retention.ms'] }
    const described = await admin.describeConfigs({ resources: [asked], includeSynonyms: false })
    return described.resources[0].configEntries[0].configValue
  }
  while (await retention() !== '172800000') await pause()
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  const partitions = async () =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
  while (await partitions() !== 4) await pause()
  passed('alter and describe')
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  const configEntries = [{ name: 'retention.ms', value: '86400000' }]
  const wanted = { topic, numPartitions: 2, replicationFactor: 1, configEntries }
  assert.equal(await admin.createTopics({ topics: [wanted], waitForLeaders: true }), true)
  passed('create')
  await produceAll()
  await consumeAll(admin)
  await alterAndDescribe(admin)
  await admin.deleteTopics({ topics: [topic] })
  while ((await admin.listTopics()).includes(topic)) await pause()
  passed('delete')
  await admin.disconnect()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
