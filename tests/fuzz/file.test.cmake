# As fuzz.test.cmake: DTRSCOPE_SOURCE=. fuzz_file -max_len=256 CORPUS tests/data/fuzz_file
if(DTR_FUZZ)
  add_executable(fuzz_file fuzz/file_target.c)
  target_compile_options(fuzz_file PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_file PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz_file PRIVATE dtr_tools dtr_static)
endif()
