# The fuzz targets proper: cmake -DDTR_FUZZ=ON with clang, then
#   tests/fuzz_log -max_len=65536 CORPUS tests/data/fuzz
#   tests/fuzz_chunk -max_len=4096 CORPUS tests/data/fuzz_chunk
# Without it, test_log_corpus and test_chunk_corpus replay the saved inputs.
if(DTR_FUZZ)
  foreach(target log chunk)
    add_executable(fuzz_${target} fuzz/${target}_target.c)
    target_compile_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${target} PRIVATE dtr_static)
  endforeach()
endif()
