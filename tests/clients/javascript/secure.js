// kafkajs over TLS and SASL: for each JSON file in the arguments create a topic, produce in a
// transaction, consume it in a group and delete it. Prints a line per file, "ok" or the error.
'use strict'

const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const RECORD_COUNT = 100

function clientOf(settings) {
  const options = {
    clientId: 'secure',
    brokers: [settings.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 2, initialRetryTime: 50 },
  }
  if (settings.ca) {
    options.ssl = { ca: [fs.readFileSync(settings.ca)] }
    if (settings.certificate) {
      options.ssl.key = options.ssl.cert = fs.readFileSync(settings.certificate)
    }
  }
  if (settings.mechanism === 'OAUTHBEARER') {
    const oauthBearerProvider = async () => ({ value: settings.token })
    options.sasl = { mechanism: 'oauthbearer', oauthBearerProvider }
  } else if (settings.mechanism) {
    const { user, password } = settings
    options.sasl = { mechanism: settings.mechanism.toLowerCase(), username: user, password }
  }
  return new Kafka(options)
}

async function produce(kafka, topic) {
  const producer = kafka.producer({ idempotent: true, transactionalId: topic, maxInFlightRequests: 1 })
  await producer.connect()
  const transaction = await producer.transaction()
  const messages = Array.from({ length: RECORD_COUNT }, (_, number) => ({ value: `value-${number}` }))
  await transaction.send({ topic, messages })
  await transaction.commit()
  await producer.disconnect()
}

async function consume(kafka, topic) {
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let count = 0
  await new Promise((resolve, reject) => {
    const eachMessage = async () => { if (++count === RECORD_COUNT) resolve() }
    consumer.run({ eachMessage }).catch(reject)
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
  })
  await consumer.disconnect()
}

async function run(settings, number) {
  const kafka = clientOf(settings)
  const topic = `secure-js-${process.pid}-${number}`
  const admin = kafka.admin()
  try {
    await admin.connect()
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true })
    await produce(kafka, topic)
    await consume(kafka, topic)
    await admin.deleteTopics({ topics: [topic] })
  } finally {
    await admin.disconnect()
  }
}

async function main() {
  for (const [number, file] of process.argv.slice(2).entries()) {
    try {
      await run(JSON.parse(fs.readFileSync(file)), number)
      console.log('ok')
    } catch (error) {
      console.log(`${error.name}: ${error.message}`.replaceAll('\n', ' '))
    }
  }
}

main()
