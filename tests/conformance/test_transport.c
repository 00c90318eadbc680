/* What every transport must do: `test_transport grpc` or `test_transport loopback`. */
#include "transport_rig.h"

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "child"))
        return transport_child(argv[2]);
    if (argc != 2 || (strcmp(argv[1], "grpc") && strcmp(argv[1], "loopback"))) {
        fprintf(stderr, "use: %s grpc|loopback\n", argv[0]);
        return 2;
    }
    is_grpc = !strcmp(argv[1], "grpc");
    transport = is_grpc ? weir_transport_grpc() : weir_transport_loopback();
    int failed =
        transport_message_tests() + transport_end_tests() + transport_connect_tests() + transport_poller_tests();
    if (is_grpc)
        failed += transport_network_tests(argv[0]);
    weir_transport_free(transport);
    return failed != 0;
}
