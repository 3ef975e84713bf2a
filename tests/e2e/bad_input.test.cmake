# Bad input on the command line: exit statuses and words.
add_test(NAME e2e/bad_input
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/bad_input.sh $<TARGET_FILE:dtrscope> ${PROJECT_SOURCE_DIR}
          ${PROJECT_BINARY_DIR})
set_tests_properties(e2e/bad_input PROPERTIES LABELS e2e TIMEOUT 300)
