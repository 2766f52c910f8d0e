/**
 * AWS Lambda: 50 cold starts at the same time share one token through DynamoDB (dynalite emulates it), and so do 50 later
 * ones. Each has its own provider and DynamoDB client. 25 share a process: 50 processes would share the cores of one machine.
 */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb'
// @ts-expect-error it has no types
import dynalite from 'dynalite'
import { createAuthFetch, createTokenProvider, optionsFromEnv, type TokenStore } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { dynamoDBTokenStore } from './parts/dynamodb-token-store.ts'

const TABLE = 'merchant-auth'
const PROCESSES = 2
const FUNCTIONS = 25

/** Execution environments: they start, wait for their first invocation, and make one call each. */
async function runFunctions(): Promise<void> {
  const options = optionsFromEnv(process.env, { apis: ['merchant'] })
  const functions = Array.from({ length: FUNCTIONS }, () => {
    const store = dynamoDBTokenStore(new DynamoDBClient(), TABLE)
    return createAuthFetch(createTokenProvider({ ...options, store }))
  })
  process.once('message', async () => {
    const url = `${options.environment.apiUrls.merchant}/orders`
    const responses = await Promise.all(functions.map((authFetch) => authFetch(url)))
    assert.ok(responses.every(({ status }) => status === 200))
    process.disconnect()
  })
  process.send?.('started')
}

/** Resolves with the time (ms) from the first invocations to the last response. */
async function coldStarts(): Promise<number> {
  const processes = Array.from({ length: PROCESSES }, () => fork(new URL(import.meta.url)))
  await Promise.all(processes.map((one) => once(one, 'message')))
  const invokedAt = performance.now()
  const ends = processes.map(async (one) => {
    one.send('invoke')
    assert.deepEqual(await once(one, 'exit'), [0, null])
  })
  await Promise.all(ends)
  return Math.round(performance.now() - invokedAt)
}

/** One holder at a time, until it releases the lease or the lease expires. */
async function checkLease({ lease = assert.fail }: TokenStore): Promise<void> {
  const release = await lease('key', 60_000)
  assert.equal(await lease('key', 60_000), undefined)
  await release?.()
  const expired = await lease('key', 1)
  await sleep(10)
  assert.ok(await lease('key', 60_000))
  await expired?.() // it belongs to the other one
  assert.equal(await lease('key', 60_000), undefined)
}

async function run(): Promise<void> {
  const database: Server = dynalite({ createTableMs: 0 }).listen(0, '127.0.0.1')
  await once(database, 'listening')
  let requests = 0
  database.on('request', () => {
    requests += 1
  })
  await using sandbox = await startSandbox()
  sandbox.test.configure({ tokenLatencyMs: 200 })
  Object.assign(process.env, sandbox.test.variables, {
    AWS_ENDPOINT_URL_DYNAMODB: `http://127.0.0.1:${(database.address() as AddressInfo).port}`,
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'emulated',
    AWS_SECRET_ACCESS_KEY: 'emulated',
  })
  const client = new DynamoDBClient()
  await client.send(
    new CreateTableCommand({
      TableName: TABLE,
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  )
  try {
    for (const when of ['with an empty table', 'later']) {
      requests = 0
      const tookMs = await coldStarts()
      const { token, merchant } = sandbox.test.counts
      console.log(`Cold starts ${when}: ${requests} requests to DynamoDB, ${tookMs} ms`)
      console.log(`  ${merchant} calls and ${token} token request so far`)
      assert.equal(token, 1)
    }
    await checkLease(dynamoDBTokenStore(client, TABLE))
  } finally {
    client.destroy()
    database.close()
  }
}

await (process.send === undefined ? run() : runFunctions())
