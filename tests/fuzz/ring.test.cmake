# As fuzz.test.cmake: fuzz_ring -max_len=32768 CORPUS
if(DTR_FUZZ)
  add_executable(fuzz_ring fuzz/ring_target.c)
  target_compile_options(fuzz_ring PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_ring PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_ring PRIVATE dtr_tools dtr_static)
endif()
