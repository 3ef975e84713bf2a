# As fuzz.test.cmake, for the readers of import; corpora in tests/data/import/fuzz.  The dictionary
# of the second helps much: fuzz_import_chrome -dict=tests/data/import/chrome.dict CORPUS ...
if(DTR_FUZZ)
  foreach(format snapshot chrome)
    string(TOUPPER ${format} upper)
    add_executable(fuzz_import_${format} fuzz/import_target.c)
    target_compile_definitions(fuzz_import_${format} PRIVATE IMPORT_FORMAT=DTRI_IMPORT_${upper})
    target_compile_options(fuzz_import_${format} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_import_${format} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_import_${format} PRIVATE dtr_tools dtr_static)
  endforeach()
endif()
