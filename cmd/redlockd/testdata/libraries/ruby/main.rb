# Drives a lock on redis-rb by lines on standard input, see ../README.md: the usual one by hand, or one that sends what a gem does.

require "digest"
require "redis"
require "securerandom"

RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'
EXTEND = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'
WAIT_MAX = 10 # seconds

# The usual lock by hand.
class ByHand
  def initialize(redis)
    @redis = redis
  end

  def acquire(name, ttl, wait)
    token = SecureRandom.hex(16)
    deadline = now + WAIT_MAX
    until take(name, token, ttl)
      return "refused" if !wait || now > deadline

      sleep 0.05
    end
    @name, @token = name, token
    "ok"
  end

  def extend(ttl)
    run(EXTEND, [@token, ttl]) == 1 ? "ok" : "refused"
  end

  def inspect
    @redis.get(@name) == @token ? "held" : "lost"
  end

  def release
    run(RELEASE, [@token]) == 1 ? "ok" : "refused"
  end

  def ping
    @redis.ping
    "ok"
  end

  private

  def take(name, token, ttl)
    @redis.set(name, token, nx: true, px: ttl)
  end

  def run(script, argv, name = @name)
    @redis.evalsha(Digest::SHA1.hexdigest(script), keys: [name], argv: argv)
  rescue Redis::CommandError => e
    raise unless e.message.start_with?("NOSCRIPT")

    unknown(script, name, argv)
  end

  def unknown(script, name, argv)
    @redis.eval(script, keys: [name], argv: argv)
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

# Like the gem redlock, which takes, extends and looks at a lock with scripts that it loads.
class LikeRedlock < ByHand
  TAKE = <<~LUA
    local holder = redis.call("GET", KEYS[1])
    if holder == ARGV[1] or not holder and ARGV[3] == "yes" then return redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2]) end
  LUA
  LOOK = 'return {redis.call("GET", KEYS[1]), redis.call("PTTL", KEYS[1])}'

  def extend(ttl)
    run(TAKE, [@token, ttl, "no"]) ? "ok" : "refused"
  end

  def inspect
    holder, left = run(LOOK, [])
    holder == @token && left.positive? ? "held" : "lost"
  end

  def release
    super
    "silent"
  end

  private

  def take(name, token, ttl)
    run(TAKE, [token, ttl, "yes"], name)
  end

  def unknown(script, name, argv)
    [TAKE, RELEASE, LOOK].each { |known| @redis.script(:load, known) }
    @redis.evalsha(Digest::SHA1.hexdigest(script), keys: [name], argv: argv)
  end
end

# Like the gem mario-redis-lock, which Mastodon uses: it has no extension, and answers a release that came too late with nil.
class LikeMastodon < ByHand
  DELETE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end'

  def extend(_)
    "unsupported"
  end

  def release
    @redis.eval(DELETE, keys: [@name], argv: [@token]) ? "ok" : "refused"
  end
end

LOCKS = { "redis-rb" => ByHand, "redlock-rb" => LikeRedlock, "mastodon" => LikeMastodon }

$stdout.sync = true
lock = LOCKS.fetch(ARGV[2]).new(Redis.new(host: ARGV[0], port: ARGV[1].to_i))
lock.ping
puts "ready redis-rb #{Redis::VERSION}"
while (line = $stdin.gets)
  command, *words = line.split
  answer = begin
    case command
    when "acquire", "try" then lock.acquire(words[0], words[1].to_i, command == "acquire")
    when "extend" then lock.extend(words[0].to_i)
    when "inspect", "release", "ping" then lock.public_send(command)
    else raise ArgumentError, "no such command: #{command}"
    end
  rescue StandardError => e
    "error #{e.message.split.join(" ")}"
  end
  puts answer
end
