# Drives the usual lock by hand on redis-rb by lines on standard input, see ../README.md.

require "digest"
require "redis"
require "securerandom"

RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'
EXTEND = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'
WAIT_MAX = 10 # seconds

class Lock
  def initialize(redis)
    @redis = redis
  end

  def acquire(name, ttl, wait)
    token = SecureRandom.hex(16)
    deadline = now + WAIT_MAX
    loop do
      if @redis.set(name, token, nx: true, px: ttl)
        @name, @token = name, token
        return "ok"
      end
      return "refused" if !wait || now > deadline

      sleep 0.05
    end
  end

  def extend(ttl)
    run(EXTEND, [@token, ttl])
  end

  def inspect
    @redis.get(@name) == @token ? "held" : "lost"
  end

  def release
    run(RELEASE, [@token])
  end

  def ping
    @redis.ping
    "ok"
  end

  private

  def run(script, argv)
    reply = begin
      @redis.evalsha(Digest::SHA1.hexdigest(script), keys: [@name], argv: argv)
    rescue Redis::CommandError => e
      raise unless e.message.start_with?("NOSCRIPT")

      @redis.eval(script, keys: [@name], argv: argv)
    end
    reply == 1 ? "ok" : "refused"
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

$stdout.sync = true
lock = Lock.new(Redis.new(host: ARGV[0], port: ARGV[1].to_i))
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
