//! What users may rely on: one file for each promise, named for the sentence, tested on the built program.
//!
//! In the order of a connection's path, then of a configuration's. `support` holds the peers that do exactly what they
//! are told, and explains itself in its head. Every wait has a deadline; no port is fixed; nothing leaves loopback.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_types, reason = "tests share what they saw between threads")]

mod support;

// accept
mod addresses_decide_who_comes_in;
mod out_of_descriptors_is_slower_never_spinning;
// hello
mod a_proxy_header_is_believed_from_those_listed;
mod any_split_of_a_hello_works;
mod backends_are_asked_for_tls_in_their_protocol;
mod clients_may_ask_for_tls_in_their_protocol;
mod nobody_can_hold_a_handshake_open;
mod slow_hellos_do_not_starve_tunnels;
mod what_is_not_tls_is_named;
// handshake
mod a_hostile_chain_costs_little;
mod an_ocsp_response_is_stapled_while_it_is_good;
mod ml_dsa_certificates_are_served_and_counted;
mod probe_finds_how_long_a_connection_is_kept;
mod probe_reads_captures;
mod probe_round_trips_are_counted;
mod proxies_understand_each_others_headers;
mod keys_known_to_be_weak_are_refused;
mod imported_configurations_serve_as_before;
mod real_clients_are_served;
mod ten_thousand_certificates_are_served;
mod the_certificate_fits_the_client;
mod unused_files_are_named;
// resumption
mod a_restart_keeps_resumption;
mod a_resumption_that_cannot_be_is_a_full_handshake;
mod a_ticket_never_crosses_a_policy;
mod sessions_with_backends_never_outlive_their_checks;
// connect
mod a_backend_is_dialled_from_the_sources_that_were_named;
mod a_failing_backend_is_named_and_another_is_tried;
mod a_retry_is_one_connection;
mod backends_are_shared_out_by_weight;
mod either_side_may_speak_tls;
mod real_servers_are_backends_with_tls;
mod checks_and_operators_take_backends_out;
mod checks_find_what_connections_would;
// relay
mod a_backend_is_told_who_the_client_is;
mod a_backend_with_tls_keeps_every_promise;
mod a_half_close_stays_a_half_close;
mod a_missing_close_notify_is_an_abort_or_an_end;
mod a_silent_client_is_ended_after_its_backend;
mod a_stuck_peer_costs_a_known_amount;
mod an_abort_stays_an_abort;
mod every_byte_arrives_once_and_in_order;
mod limits_end_connections;
mod the_backend_gets_what_came_before;
mod a_standard_transaction_takes_few_system_calls;
mod an_idle_connection_costs_little;
// close
mod a_client_may_vanish_at_any_step;
mod every_failed_connection_is_named;
mod the_access_log_is_read_back;
// any step
mod injected_errors_change_nothing;
// looking in
mod both_ends_name_who_took_the_time;
mod failing_backends_are_seen;
mod alerts_and_dashboard_read_real_metrics;
mod operators_can_look_in;
mod top_shows_what_the_proxy_counts;
// reload
mod a_bad_reload_changes_nothing_and_says_why;
mod a_reload_loses_nothing;
mod a_renewal_never_serves_another_name;
mod changed_certificates_are_picked_up;
mod clients_are_known_by_their_certificates;
// stop
mod a_fault_finds_a_small_world;
mod a_restart_loses_nothing;
mod keys_move_when_the_mode_changes;
mod keys_that_root_alone_can_read_are_served;
mod keys_shown_to_backends_are_apart_too;
mod private_keys_are_not_where_the_network_is;
mod a_service_manager_is_told_how_it_is;
mod an_upgrade_loses_nothing;
mod sockets_of_a_service_manager_are_served;
mod who_waits_survives_a_kill;
mod a_stop_drains_and_says_how_it_went;
// load on many machines
mod a_lost_worker_fails_the_run;
mod a_wrong_worker_is_refused_by_name;
mod an_exposed_bus_is_refused;
mod many_machines_make_one_run;
mod workers_stop_when_nobody_leads;
// load
mod load_a_refused_handshake_is_no_success;
mod load_a_report_can_be_kept_and_repeated;
mod load_clients_and_requests_are_those_that_were_asked_for;
mod load_connections_are_opened_as_they_are_needed;
mod load_counts_agree_with_the_servers_own;
mod load_memory_is_flat;
mod load_percentiles_are_the_injected_ones;
mod load_the_figures_of_a_running_test_can_be_followed;
mod load_the_verdict_names_the_bottleneck;
mod load_what_is_offered_is_what_was_asked;
mod load_wrong_use_is_told_before_the_run;
// speed
mod speed_shows_every_row_and_its_arithmetic;
// doctor
mod doctor_finds_what_was_provoked;
mod doctor_keys_finds_weak_ones;
mod doctor_size_shows_its_arithmetic;
// lab
mod lab_a_path_is_what_was_asked_for;
mod lab_faults_break_no_promise;
mod lab_sockets_say_what_the_page_says;
mod lab_three_hosts_are_as_far_apart_as_asked;
mod lab_round_trips_are_counted;
// the words on the command line and in the file
mod check_finds_what_a_start_would_fail_on;
mod every_mistake_in_a_configuration_is_told_at_once;
mod exit_codes_mean_what_they_say;
mod it_serves_without_a_configuration;
mod a_header_is_explained_or_its_fault_is_named;
