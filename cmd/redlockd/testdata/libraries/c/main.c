/* Drives the usual lock by hand on hiredis by lines on standard input, see ../README.md. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#define RELEASE "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"DEL\", KEYS[1]) else return 0 end"
#define EXTEND "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2]) else return 0 end"

enum { WAIT_MAX_S = 10 };

static redisContext *conn;
static char name[256], token[33];

static void random_token(char *to) {
    unsigned char bytes[16];
    FILE *f = fopen("/dev/urandom", "rb");
    if (f == NULL || fread(bytes, sizeof bytes, 1, f) != 1) abort();
    fclose(f);
    for (size_t i = 0; i < sizeof bytes; i++) sprintf(to + 2 * i, "%02x", bytes[i]);
}

static void say_error(redisReply *reply) {
    printf("error %s\n", reply != NULL ? reply->str : conn->errstr);
    /* hiredis leaves it to its user to connect again. */
    if (reply == NULL) redisReconnect(conn);
}

static bool failed(redisReply *reply) { return reply == NULL || reply->type == REDIS_REPLY_ERROR; }

static void acquire(const char *wanted, const char *ttl, bool wait) {
    char secret[sizeof token];
    random_token(secret);
    for (time_t end = time(NULL) + WAIT_MAX_S;; usleep(50000)) {
        redisReply *reply = redisCommand(conn, "SET %s %s NX PX %s", wanted, secret, ttl);
        if (failed(reply)) {
            say_error(reply);
            freeReplyObject(reply);
            return;
        }
        bool ok = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (ok) {
            snprintf(name, sizeof name, "%s", wanted);
            memcpy(token, secret, sizeof token);
        }
        if (ok || !wait || time(NULL) > end) {
            puts(ok ? "ok" : "refused");
            return;
        }
    }
}

/* run sends EVAL, as most C programs do: SHA-1 is not in the library. */
static void run(const char *script, const char *ttl) {
    redisReply *reply = ttl == NULL ? redisCommand(conn, "EVAL %s 1 %s %s", script, name, token)
                                    : redisCommand(conn, "EVAL %s 1 %s %s %s", script, name, token, ttl);
    if (failed(reply)) say_error(reply);
    else puts(reply->type == REDIS_REPLY_INTEGER && reply->integer == 1 ? "ok" : "refused");
    freeReplyObject(reply);
}

static void inspect(void) {
    redisReply *reply = redisCommand(conn, "GET %s", name);
    if (failed(reply)) say_error(reply);
    else puts(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, token) == 0 ? "held" : "lost");
    freeReplyObject(reply);
}

static void ping(void) {
    redisReply *reply = redisCommand(conn, "PING");
    if (failed(reply)) say_error(reply);
    else puts("ok");
    freeReplyObject(reply);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    conn = redisConnect(argv[1], atoi(argv[2]));
    if (conn == NULL || conn->err) {
        printf("error %s\n", conn == NULL ? "out of memory" : conn->errstr);
        return 1;
    }
    printf("ready hiredis %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    char line[512], command[16], first[256], second[32];
    while (fgets(line, sizeof line, stdin) != NULL) {
        first[0] = second[0] = command[0] = '\0';
        sscanf(line, "%15s %255s %31s", command, first, second);
        if (strcmp(command, "acquire") == 0) acquire(first, second, true);
        else if (strcmp(command, "try") == 0) acquire(first, second, false);
        else if (strcmp(command, "extend") == 0) run(EXTEND, first);
        else if (strcmp(command, "inspect") == 0) inspect();
        else if (strcmp(command, "release") == 0) run(RELEASE, NULL);
        else if (strcmp(command, "ping") == 0) ping();
        else printf("error no such command: %s\n", command);
    }
    redisFree(conn);
    return 0;
}
