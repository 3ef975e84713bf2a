# The fuzz targets proper: cmake -DDTR_FUZZ=ON with clang, then
#   tests/fuzz_log -max_len=65536 CORPUS tests/data/fuzz
# Without it, test_log_corpus replays the saved inputs.
option(DTR_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
if(DTR_FUZZ)
  add_executable(fuzz_log fuzz/log_target.c)
  target_compile_options(fuzz_log PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_log PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_log PRIVATE dtr_static)
endif()
