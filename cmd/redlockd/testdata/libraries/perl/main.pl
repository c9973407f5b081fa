#!/usr/bin/perl
# Drives the usual lock by hand on the Perl module Redis by lines on standard input, see ../README.md.
use strict;
use warnings;

use Digest::SHA qw(sha1_hex);
use Redis;
use Time::HiRes qw(sleep time);

my $RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end';
my $EXTEND  = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end';
my $WAIT_MAX = 10;    # seconds

$| = 1;
my ($host, $port) = @ARGV;
my $redis = Redis->new(server => "$host:$port", reconnect => 10, every => 100_000);
my ($name, $token) = ('', '');

sub acquire {
    my ($wanted, $ttl, $wait) = @_;
    open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!";
    read($random, my $bytes, 16) == 16 or die '/dev/urandom gave too little';
    my $secret = unpack 'H*', $bytes;
    for (my $end = time + $WAIT_MAX; ; sleep 0.05) {
        if ($redis->set($wanted, $secret, 'NX', 'PX', $ttl)) {
            ($name, $token) = ($wanted, $secret);
            return 'ok';
        }
        return 'refused' if !$wait || time > $end;
    }
}

sub run {
    my ($script, @args) = @_;
    my $reply = eval { $redis->evalsha(sha1_hex($script), 1, $name, $token, @args) };
    if (my $error = $@) {
        die $error unless $error =~ /NOSCRIPT/;
        $reply = $redis->eval($script, 1, $name, $token, @args);
    }
    return $reply == 1 ? 'ok' : 'refused';
}

my %commands = (
    acquire => sub { acquire(@_, 1) },
    try     => sub { acquire(@_, 0) },
    extend  => sub { run($EXTEND, @_) },
    inspect => sub { ($redis->get($name) // '') eq $token ? 'held' : 'lost' },
    release => sub { run($RELEASE) },
    ping    => sub { $redis->ping; 'ok' },
);

print "ready Redis.pm $Redis::VERSION\n";
while (my $line = <STDIN>) {
    my ($command, @words) = split ' ', $line;
    my $answer = eval { $commands{$command}->(@words) };
    if (my $error = $@) {
        $answer = 'error ' . join ' ', split ' ', $error;
    }
    print "$answer\n";
}
