/* mbedTLS, as it is by default. Arguments: PORT TIMES VERSION. Prints the microseconds of each first request. */
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#if defined(MBEDTLS_PSA_CRYPTO_C)
#include <psa/crypto.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int result, const char *act) {
    if (result < 0) {
        fprintf(stderr, "%s: -0x%04x\n", act, -result);
        exit(1);
    }
}

static long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

int main(int count, char **words) {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_ssl_config config;
    char answer[4];
    if (count != 4) return 2;
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&random);
    mbedtls_ssl_config_init(&config);
#if defined(MBEDTLS_PSA_CRYPTO_C)
    psa_crypto_init();
#endif
    check(mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, NULL, 0), "seed");
    check(mbedtls_ssl_config_defaults(&config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT), "defaults");
    mbedtls_ssl_conf_authmode(&config, MBEDTLS_SSL_VERIFY_NONE);
    mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &random);
    for (int time = 0; time < atoi(words[2]); time++) {
        mbedtls_net_context net;
        mbedtls_ssl_context stream;
        int got;
        mbedtls_net_init(&net);
        mbedtls_ssl_init(&stream);
        check(mbedtls_net_connect(&net, "127.0.0.1", words[1], MBEDTLS_NET_PROTO_TCP), "connect");
        check(mbedtls_ssl_setup(&stream, &config), "setup");
        check(mbedtls_ssl_set_hostname(&stream, "localhost"), "name");
        mbedtls_ssl_set_bio(&stream, &net, mbedtls_net_send, mbedtls_net_recv, NULL);
        check(mbedtls_ssl_handshake(&stream), "handshake");
        long began = microseconds();
        check(mbedtls_ssl_write(&stream, (const unsigned char *)"ping", 4), "write");
        /* A ticket that comes first is no answer. */
        do {
            got = mbedtls_ssl_read(&stream, (unsigned char *)answer, sizeof answer);
        } while (got == MBEDTLS_ERR_SSL_WANT_READ
#if defined(MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET)
                 || got == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
#endif
        );
        check(got, "read");
        printf("%ld\n", microseconds() - began);
        mbedtls_ssl_close_notify(&stream);
        mbedtls_ssl_free(&stream);
        mbedtls_net_free(&net);
    }
    return 0;
}
