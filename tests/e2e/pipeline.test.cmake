add_test(NAME e2e/pipeline
         COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/pipeline.sh $<TARGET_FILE:dtrscope>
                 $<TARGET_FILE:charlm> $<TARGET_FILE:dtrscope_sqlite>)
set_tests_properties(e2e/pipeline PROPERTIES LABELS e2e TIMEOUT 300)
