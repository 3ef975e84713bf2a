# Skipped without a GPU that PyTorch sees.
add_test(NAME gpu/torch COMMAND ${PROJECT_SOURCE_DIR}/tests/gpu/torch.sh)
set_tests_properties(gpu/torch PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600)
