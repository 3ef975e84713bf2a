# The page in a browser; skipped where Node, its packages or Chromium are missing.
find_program(NODE node)
if(NODE)
  add_test(NAME e2e/page COMMAND ${NODE} ${PROJECT_SOURCE_DIR}/tests/e2e/page.mjs
                                 $<TARGET_FILE:dtrscope> ${PROJECT_SOURCE_DIR})
  set_tests_properties(e2e/page PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
