// One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY. What it prints is in tests/group_kit/member.py.
'use strict'

const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const [bootstrap, group, pattern] = process.argv.slice(2)

// kafkajs knows one assigner, under a name of its own: with Kafka's name it can lead other clients.
const roundRobin = (tools) => ({ ...PartitionAssigners.roundRobin(tools), name: 'roundrobin' })

const print = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)

async function main() {
  const kafka = new Kafka({
    clientId: 'member',
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500 },
  })
  const consumer = kafka.consumer({
    groupId: group,
    partitionAssigners: [roundRobin],
    sessionTimeout: 3000,
    heartbeatInterval: 500,
    metadataMaxAge: 500,
    maxWaitTimeInMs: 200,
  })
  consumer.on(consumer.events.REBALANCING, () => print({ event: 'owns', partitions: [] }))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => print({
    event: 'owns',
    partitions: Object.entries(payload.memberAssignment)
      .flatMap(([topic, partitions]) => partitions.map((partition) => `${topic}/${partition}`)),
  }))
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    print({ event: 'closed' })
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topic: new RegExp(pattern), fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ topic, partition, message }) => print({
      event: 'record', partition: `${topic}/${partition}`, offset: Number(message.offset),
    }),
  })
}

main().catch((problem) => { console.error(problem); process.exit(1) })
