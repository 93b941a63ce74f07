#!/usr/bin/env escript
%% Erlang's ssl, as it is by default: with Nagle's algorithm. Arguments: PORT TIMES VERSION. Prints the microseconds of each first request.
main([Port, Times, Version]) ->
    logger:set_primary_config(level, none),
    {ok, _} = application:ensure_all_started(ssl),
    Options = [{verify, verify_none}, {active, false}, {mode, binary}, {versions, [list_to_atom("tlsv" ++ Version)]}],
    [request(list_to_integer(Port), Options) || _ <- lists:seq(1, list_to_integer(Times))].

request(Port, Options) ->
    {ok, Stream} = ssl:connect("127.0.0.1", Port, Options),
    Began = erlang:monotonic_time(microsecond),
    ok = ssl:send(Stream, <<"ping">>),
    {ok, <<"ping">>} = ssl:recv(Stream, 4),
    io:format("~b~n", [erlang:monotonic_time(microsecond) - Began]),
    ssl:close(Stream).
