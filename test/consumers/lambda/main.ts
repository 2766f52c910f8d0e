/** A bundled AWS Lambda handler that is frozen between invocations with SIGSTOP and SIGCONT. */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildSync } from 'esbuild'
import { startSandbox } from 'merchant-auth/testing'

const bundle = join(__dirname, 'bundle.cjs')
/** Longer than the rest of either token's lifetime, and than one attempt of a token request may take. */
const FROZEN_MS = 2_200

async function main(): Promise<void> {
  const entryPoints = [join(__dirname, 'handler.ts')]
  buildSync({ entryPoints, outfile: bundle, bundle: true, platform: 'node', format: 'cjs' })
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  let asked = 0
  const secrets = createServer((request, response) => {
    asked += 1
    assert.equal(request.url, '/secretsmanager/get?secretId=prod%2Fmerchant')
    assert.equal(request.headers['x-aws-parameters-secrets-token'], 'session')
    response.end(JSON.stringify({ SecretString: clientSecret }))
  }).listen(0, '127.0.0.1')
  await once(secrets, 'listening')
  const lambda = fork(join(__dirname, 'runtime.js'), [bundle], {
    env: {
      MERCHANT_AUTH_URL: environment.authUrl,
      MERCHANT_AUTH_AUDIENCE: environment.audience,
      MERCHANT_AUTH_API_URLS: `merchant=${merchantUrl}`,
      MERCHANT_AUTH_CLIENT_ID: clientId,
      MERCHANT_AUTH_TIMEOUT_MS: '2000',
      SECRET_ID: 'prod/merchant',
      AWS_SESSION_TOKEN: 'session',
      PARAMETERS_SECRETS_EXTENSION_HTTP_PORT: `${(secrets.address() as AddressInfo).port}`,
    },
  })
  try {
    // All invocations share one provider.
    sandbox.test.configure({ lifetimeSeconds: 2 })
    await invoke(lambda)
    await freeze(lambda)

    // The token has expired in the meantime: it is not sent, and this call waits for its own token request.
    sandbox.test.configure({ lifetimeSeconds: 4 })
    await invoke(lambda)
    await invoke(lambda)
    assert.equal(sandbox.test.counts.token, 2)

    // A background renewal is frozen before its response arrives.
    sandbox.test.fail('token', { kind: 'hang' })
    const until = Date.now() + 60_000
    while (sandbox.test.counts.token < 3 && Date.now() < until) {
      await invoke(lambda)
      await sleep(20)
    }
    await freeze(lambda)
    await invoke(lambda)
    assert.equal(sandbox.test.counts.token, 4)
    assert.equal(sandbox.test.counts.unauthorized, 0)
    assert.equal(asked, 4)

    // No timer keeps the process alive, even without close().
    lambda.disconnect()
    assert.deepEqual(await once(lambda, 'exit'), [0, null])
    console.log('done')
  } finally {
    lambda.kill('SIGKILL')
    secrets.close()
    await sandbox.close()
  }
}

async function invoke(lambda: ChildProcess): Promise<void> {
  lambda.send({ orderId: '1' })
  const [result] = (await once(lambda, 'message')) as [{ statusCode: number; body: string }]
  assert.equal(result.statusCode, 200, result.body)
}

async function freeze(lambda: ChildProcess): Promise<void> {
  lambda.kill('SIGSTOP')
  await sleep(FROZEN_MS)
  lambda.kill('SIGCONT')
}

main()
